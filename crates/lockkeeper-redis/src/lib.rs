//! The Redis store: one server, a master behind Sentinels, or a Cluster; Redis from 6.2 on, and
//! Valkey.
//!
//! Every operation is one script: the server does it completely or not at all, in the order in
//! which a client sends its requests. While a lock has no waiters, it is one key. A release grants
//! the lock to the next waiter and sends that waiter a message. So a hand-off takes half a round
//! trip, and wakes no other waiter.
//!
//! Locks live in the memory of one server. If the server loses that memory (a restart without
//! persistence, a failover to a replica that lags), it may grant a lock that another client still
//! holds. Tokens rise all the same, since they begin at the server's clock. So a fenced resource
//! refuses the older holder.
#![forbid(unsafe_code)]

mod admin;
mod builder;
mod claim;
mod contract;
mod doctor;
mod driver;
mod fault;
mod layout;
mod long;
mod pushed;
mod register;
mod renew;
mod replicas;
mod rights;
mod servers;
mod session;
mod setup;
#[doc(hidden)]
pub mod transactions;
mod wait;
mod withdraw;

use std::fmt;
use std::sync::Arc;

pub use self::builder::RedisStoreBuilder;
pub use self::driver::DRIVER;
use self::layout::{ClientId, Keys};
use self::pushed::{PushListener, PushState};
pub use self::register::RedisRegister;
use self::servers::{Said, Servers};
use self::setup::{Deployment, Setup};
use self::transactions::idle::Idle;
use self::wire::Request;
use lockkeeper_core::kit::{Process, SessionClaims, random};
use lockkeeper_core::store::{Capabilities, Fencing};
use lockkeeper_core::time::Clock;
use lockkeeper_core::url::StoreUrl;
use lockkeeper_core::{
    Error, ErrorKind, LockName, Result, Sequencer, marks, name, registers, store, time, url,
};
pub use lockkeeper_redis_client::checks::Check;
use lockkeeper_redis_client::{checks, route, wire};

/// What the store can do.
const CAPABILITIES: Capabilities =
    Capabilities { fencing: Fencing::UntilFailover, ..Capabilities::full() };

/// A store on Redis or Valkey. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::{Keeper, RedisStore, Secret};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = RedisStore::sentinel(["s1", "s2", "s3"], "mymaster").password(Secret::new("hunter2"));
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore(Arc<Shared>);

struct Shared {
    servers: Arc<Servers>,
    pushed: Arc<PushState>,
    session_claims: SessionClaims,
    client: ClientId,
    address: String,
    idle: Idle,
    clock: Clock,
    process: Process,
    one_clock: bool,
}

impl RedisStore {
    /// The store on one server, `HOST` or `HOST:PORT`.
    pub fn standalone(host: impl AsRef<str>) -> RedisStoreBuilder {
        RedisStoreBuilder { setup: Setup::new(Deployment::Standalone, [host]) }
    }

    /// The store on the master that these Sentinels know by the name `master`.
    pub fn sentinel<H: AsRef<str>>(
        sentinels: impl IntoIterator<Item = H>,
        master: impl Into<String>,
    ) -> RedisStoreBuilder {
        RedisStoreBuilder { setup: Setup::new(Deployment::Sentinel(master.into()), sentinels) }
    }

    /// The store on a Cluster with these nodes; some of its nodes are enough. All keys of a name
    /// are in one slot.
    pub fn cluster<H: AsRef<str>>(nodes: impl IntoIterator<Item = H>) -> RedisStoreBuilder {
        RedisStoreBuilder { setup: Setup::new(Deployment::Cluster, nodes) }
    }

    /// A builder for the store that a URL names: `redis://`, `redis+sentinel://`,
    /// `redis+cluster://`, and the same with `rediss` for TLS.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a URL of another scheme, or one whose parts do not fit
    /// together.
    pub fn from_url(url: &StoreUrl) -> Result<RedisStoreBuilder> {
        Ok(RedisStoreBuilder { setup: setup::from_url(url)? })
    }

    async fn open(setup: Setup) -> Result<Self> {
        let address = setup.to_string();
        Self::connect(&setup, &address).await.map_err(|error| error.at(&address))
    }

    async fn connect(setup: &Setup, address: &str) -> Result<Self> {
        let client = ClientId::random();
        let pushed = Arc::<PushState>::default();
        let servers = Servers::open(setup, client, Arc::new(PushListener::new(&pushed))).await?;
        servers.check(setup).await?;
        Ok(Self(Arc::new(Shared {
            servers,
            pushed,
            session_claims: SessionClaims::default(),
            idle: Idle::default(),
            client,
            address: address.to_owned(),
            clock: Clock::boot(),
            process: Process::this(),
            one_clock: setup.topology != Deployment::Cluster,
        })))
    }

    /// Sends a request about a line to the server of its keys. The request has its place in the
    /// order when this returns.
    fn ask(
        &self,
        name: &LockName,
        request: Request,
    ) -> Result<impl Future<Output = Result<Said>> + Send + use<>> {
        self.check_process()?;
        let keys = Keys::of(name);
        let answer = self.0.servers.send(keys.slot(), request);
        Ok(async move { answer.await.map_err(|error| fault::about(error, &keys.shown())) })
    }

    /// A forked child shares the connections with its parent, so it must not use them.
    fn check_process(&self) -> Result<()> {
        self.0.process.check(self, "store")
    }
}

impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0.address).finish()
    }
}
