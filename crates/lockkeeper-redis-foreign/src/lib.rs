//! The locks of other libraries on Redis, for programs that replace such a library one process at a
//! time: the simple lock of `SET NX PX`, and the locks of Redisson.
//!
//! Every operation is one script of lockkeeper on the keys of the other library, so clients of both
//! exclude each other. Beside these keys lockkeeper keeps one key for each lock: the tokens, and
//! what a claim shows. [`Layout`] has the layouts, and [`Layout::capabilities`] says what each can
//! do.
#![forbid(unsafe_code)]

mod admin;
mod builder;
mod channels;
mod claim;
mod contract;
mod doctor;
mod driver;
mod fault;
mod layout;
mod renew;
mod rights;
mod session;
mod turns;
mod wait;
mod withdraw;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::ForeignRedisStoreBuilder;
use self::channels::Channels;
#[doc(hidden)]
pub use self::driver::{LAYOUTS, examine, layout_of, open};
pub use self::layout::Layout;
use self::layout::{Keys, Messages};
use lockkeeper_core::kit::{Process, SessionClaims, random};
use lockkeeper_core::time::Clock;
use lockkeeper_core::{Error, ErrorKind, LockName, Result, store, url};
use lockkeeper_redis_client::checks::Check;
use lockkeeper_redis_client::route::Route;
use lockkeeper_redis_client::setup::{Deployment, Setup};
use lockkeeper_redis_client::subscriptions::Subscriptions;
use lockkeeper_redis_client::wire::{Request, Value};
use lockkeeper_redis_client::{opening, rights as needs, wire};

/// A store on the locks of another library. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
/// use lockkeeper::Keeper;
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = ForeignRedisStore::standalone("redis.internal", Layout::Redisson);
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?; // getLock("deploy") of Redisson
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ForeignRedisStore(Arc<Shared>);

struct Shared {
    layout: Layout,
    route: Route,
    channels: Arc<Channels>,
    subscriptions: Arc<Subscriptions>,
    session_claims: SessionClaims,
    turns: turns::Turns,
    /// The life that a key without one gets. Zero: such keys stay as they are.
    adopt_ttl: Duration,
    capabilities: store::Capabilities,
    address: String,
    clock: Clock,
    process: Process,
}

impl ForeignRedisStore {
    /// The store on one server, `HOST` or `HOST:PORT`.
    pub fn standalone(host: impl AsRef<str>, layout: Layout) -> ForeignRedisStoreBuilder {
        ForeignRedisStoreBuilder::of(Setup::new(Deployment::Standalone, [host]), layout)
    }

    /// The store on the master that these Sentinels know by the name `master`.
    pub fn sentinel<H: AsRef<str>>(
        sentinels: impl IntoIterator<Item = H>,
        master: impl Into<String>,
        layout: Layout,
    ) -> ForeignRedisStoreBuilder {
        let setup = Setup::new(Deployment::Sentinel(master.into()), sentinels);
        ForeignRedisStoreBuilder::of(setup, layout)
    }

    /// The store on a Cluster with these nodes; some of its nodes are enough.
    pub fn cluster<H: AsRef<str>>(
        nodes: impl IntoIterator<Item = H>,
        layout: Layout,
    ) -> ForeignRedisStoreBuilder {
        ForeignRedisStoreBuilder::of(Setup::new(Deployment::Cluster, nodes), layout)
    }

    /// The layout of the keys.
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    async fn open(builder: ForeignRedisStoreBuilder, address: &str) -> Result<Self> {
        let ForeignRedisStoreBuilder { setup, layout, adopt_ttl, capabilities } = builder;
        let channels = Arc::<Channels>::default();
        let trials = needs::trials(
            &setup,
            &rights::INSIDE,
            needs::Place::of(rights::TRIED, &rights::channel(layout)?),
        );
        let settings = setup.settings(trials)?;
        let listener = Arc::clone(&channels) as Arc<dyn wire::Listener>;
        let route = Route::open(setup.servers()?, settings, listener).await.map_err(fault::of)?;
        opening::check(&route, &setup, |_| Ok(())).await?;
        let subscriptions = Subscriptions::new(&route)?;
        Ok(Self(Arc::new(Shared {
            layout,
            route,
            channels,
            subscriptions,
            session_claims: SessionClaims::default(),
            turns: turns::Turns::default(),
            adopt_ttl,
            capabilities,
            address: address.to_owned(),
            clock: Clock::boot(),
            process: Process::this(),
        })))
    }

    fn keys(&self, name: &LockName) -> Keys {
        Keys::of(self.0.layout, name)
    }

    fn messages(&self) -> Messages {
        if self.0.route.shards() { "SPUBLISH" } else { "PUBLISH" }
    }

    fn is_cluster(&self) -> bool {
        matches!(self.0.route, Route::Cluster(_))
    }

    /// Sends a request about a lock to the server of its keys. The request has its place in the
    /// order when this returns.
    fn ask<T, F: FnOnce(&Value) -> Result<T> + Send>(
        &self,
        keys: &Keys,
        request: Request,
        read: F,
    ) -> Result<impl Future<Output = Result<T>> + Send + use<T, F>> {
        self.check_process()?;
        if self.is_cluster() {
            keys.check_slot()?;
        }
        let answer = self.0.route.send_by(keys.slot(), request);
        let (store, keys) = (self.clone(), keys.clone());
        Ok(async move {
            let (value, by) = match answer.await {
                Ok(answer) => answer,
                Err(error) if error.is("WRONGTYPE") => return Err(store.other_type(&keys).await),
                Err(error) => return Err(fault::about(error, &keys)),
            };
            let answer = read(&value);
            if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Internal) {
                // The later answers on the connection may belong to other requests too.
                by.link.reset("it gave an answer that is not one of the request");
            }
            answer
        })
    }

    /// The error about a key of another type. The script has changed nothing.
    async fn other_type(&self, keys: &Keys) -> Error {
        for (key, expected) in keys.types() {
            let asked = Request::command(&[b"TYPE", key]);
            let found = match self.0.route.send_by(keys.slot(), asked).await {
                Ok((value, _)) => wire::text(&value).map(str::to_owned),
                Err(_) => None,
            };
            match found.as_deref() {
                Some(found) if found != "none" && found != expected => {
                    return fault::foreign(keys, key, &format!("a value of the type {found}"));
                }
                _ => {}
            }
        }
        fault::foreign(keys, keys.main(), "a value of another type")
    }

    /// A forked child shares the connections with its parent, so it must not use them.
    fn check_process(&self) -> Result<()> {
        self.0.process.check(self, "store")
    }
}

impl fmt::Display for ForeignRedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for ForeignRedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignRedisStore").field(&self.0.address).finish()
    }
}
