//! The Fenced Redlock store: locks on a majority of independent Redis or Valkey servers, from three
//! on. No server is a replica of another one.
//!
//! A lock is held if a majority of the servers holds the claim under one number. That number is the
//! token of the lock. Each server counts its numbers up, and no number is counted twice, so a token
//! is unique, and higher than that of every lock whose acquire had returned before this one began.
//!
//! That no two clients *believe* to hold the lock needs, as in every Redlock, clocks with nearly
//! the same rate, and servers that do not forget. A server that was started again does not count
//! for as long as a lock may last.
#![forbid(unsafe_code)]

mod admin;
mod builder;
mod claim;
mod claims;
mod contract;
mod doctor;
mod driver;
mod fault;
mod identity;
mod late;
mod layout;
mod line;
mod nodes;
mod opening;
mod protocol;
mod pushed;
mod renew;
mod rights;
mod scan;
mod setup;
mod wait;
mod waiters;
mod withdraw;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Result;
use lockkeeper_core::kit::runtime::Runtime;
use lockkeeper_core::kit::{Process, SessionClaims};
use lockkeeper_core::store::{Admission, Capabilities, Elsewhere, Fencing};
use lockkeeper_core::time::Clock;
use lockkeeper_core::url::StoreUrl;
pub use lockkeeper_redis_client::checks::Check;

pub use self::builder::RedlockStoreBuilder;
use self::claims::Claims;
pub use self::driver::DRIVER;
use self::nodes::Nodes;
use self::pushed::Pushed;
use self::setup::{MAX_KEEP, Setup};

/// What the store can do, with the default settings.
const CAPABILITIES: Capabilities = Capabilities {
    admission: Admission::ReadWrite,
    fencing: Fencing::UntilFailover,
    queue: false,
    resumable: false,
    ttl_min: Duration::from_millis(200),
    ttl_max: MAX_KEEP,
    lock_delay_max: MAX_KEEP,
    keep_max: MAX_KEEP,
    min_hold_max: Duration::ZERO,
    amend: false,
    elsewhere: Elsewhere {
        semaphores: "redis:// or etcd://",
        longer: Some("a longer max-keep in the URL of all clients"),
        ..Elsewhere::STORE
    },
    ..Capabilities::full()
};

/// A store on a majority of independent Redis or Valkey servers. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::{Keeper, RedlockStore, Secret};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = RedlockStore::new(["r1", "r2", "r3"]).password(Secret::new("hunter2"));
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedlockStore(Arc<Shared>);

struct Shared {
    setup: Setup,
    capabilities: Capabilities,
    nodes: Nodes,
    pushed: Arc<Pushed>,
    claims: Claims,
    session_claims: SessionClaims,
    address: String,
    clock: Clock,
    process: Process,
    /// The runtime that opened the store. Tasks that outlast their caller run here.
    runtime: Runtime,
}

impl RedlockStore {
    /// The store on these servers, each `HOST` or `HOST:PORT`: three or more, and each one for
    /// itself.
    #[allow(clippy::new_ret_no_self, reason = "a store is opened by its builder")]
    pub fn new<H: AsRef<str>>(servers: impl IntoIterator<Item = H>) -> RedlockStoreBuilder {
        RedlockStoreBuilder { setup: Setup::new(servers) }
    }

    /// A builder for the store that a URL names: `redlock://`, or `redlocks://` for TLS.
    ///
    /// # Errors
    /// [`Invalid`](lockkeeper_core::ErrorKind::Invalid) for a URL of another scheme, one whose
    /// parts do not fit together, and one with fewer than three servers.
    pub fn from_url(url: &StoreUrl) -> Result<RedlockStoreBuilder> {
        Ok(RedlockStoreBuilder { setup: Setup::from_url(url)? })
    }

    /// The store, and the nodes that were initialized, with the time after which each counts.
    async fn open(setup: Setup) -> Result<(Self, Vec<(String, Duration)>)> {
        let address = setup.to_string();
        let store = Self::connecting(setup, &address)?;
        let initialized = opening::check(&store).await.map_err(|error| error.at(&address))?;
        Ok((store, initialized))
    }

    /// The store, which has begun to connect.
    fn connecting(setup: Setup, address: &str) -> Result<Self> {
        let pushed = Arc::<Pushed>::default();
        let nodes = Nodes::open(&setup, &pushed).map_err(|error| error.at(address))?;
        let capabilities = Capabilities {
            ttl_min: setup.ttl_min(),
            ttl_max: setup.max_keep,
            lock_delay_max: setup.max_keep,
            keep_max: setup.max_keep,
            ..CAPABILITIES
        };
        Ok(Self(Arc::new(Shared {
            setup,
            capabilities,
            nodes,
            pushed,
            claims: Claims::default(),
            session_claims: SessionClaims::default(),
            address: address.to_owned(),
            clock: Clock::boot(),
            process: Process::this(),
            runtime: Runtime::here_or_own()?,
        })))
    }

    /// A forked child shares the connections with its parent, so it must not use them.
    fn check_process(&self) -> Result<()> {
        self.0.process.check(self, "store")
    }
}

impl fmt::Display for RedlockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for RedlockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedlockStore").field(&self.0.address).finish()
    }
}
