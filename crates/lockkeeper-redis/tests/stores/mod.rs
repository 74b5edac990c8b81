//! The store under test, on real servers: on one that all cases share, or each case on a server
//! whose time it moves.

mod crowd;
pub(crate) mod servers;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{LockName, RedisStore};
use lockkeeper_live::{Redis, Servers, StandingClock};
use lockkeeper_testing::{Crash, Harness, ServerClock, Time, Ttls, unique_prefix};

/// Each case has names of its own on the shared servers.
pub(crate) struct On<S>(PhantomData<S>);

impl<S: Servers> Harness for On<S> {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    /// Less the prefix.
    const NAME_MAX: usize = 255 - 13;

    async fn start() -> Self {
        Self(PhantomData)
    }

    async fn client(&self) -> Arc<dyn Store> {
        connect(&S::url()).await
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The client closes its connection without a message.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::comes(&shared_nodes(&S::url()), name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Ttls {
        // Real servers beside a busy machine: a stall of a second is no loss.
        Ttls {
            ttl: Duration::from_secs(3),
            wait_ttl: Duration::from_millis(1500),
            lock_delay: Duration::from_secs(1),
        }
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}

/// The first nodes of the shared cluster, which nobody fails over.
const MASTERS: usize = 3;

/// The shared servers that have the keys of the store at this URL.
fn shared_nodes(url: &str) -> Vec<&'static Redis> {
    match url.starts_with("redis+cluster://") {
        true => lockkeeper_live::cluster().unwrap().nodes()[..MASTERS].iter().collect(),
        false => vec![lockkeeper_live::redis().unwrap()],
    }
}

/// How the clients of a server speak with it.
pub(crate) trait Protocol: Send + Sync + 'static {
    const QUERY: &'static str;
}

pub(crate) struct Resp3;

impl Protocol for Resp3 {
    const QUERY: &'static str = "";
}

/// For what stands before a server and knows nothing newer.
pub(crate) struct Resp2;

impl Protocol for Resp2 {
    const QUERY: &'static str = "?resp=2";
}

/// Each case has a server of its own, and moves its time.
pub(crate) struct Moved<P> {
    server: Redis,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Moved<P> {
    fn url(&self) -> String {
        self.server.url() + P::QUERY
    }
}

impl<P: Protocol> Harness for Moved<P> {
    const TIME: Time = Time::Moved;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    /// Less the prefix.
    const NAME_MAX: usize = 255 - 13;

    async fn start() -> Self {
        let server = Redis::builder().with_standing_clock().start().unwrap();
        Self { server, protocol: PhantomData }
    }

    async fn client(&self) -> Arc<dyn Store> {
        connect(&self.url()).await
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // It closes its connection and says nothing.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::comes(&[&self.server], name, round);
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        Some(Arc::new(OfRedis(self.server.standing_clock().unwrap())))
    }

    /// The crowd has names beside those of the case.
    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Ttls {
        Ttls::quick()
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}

struct OfRedis(StandingClock);

#[async_trait]
impl ServerClock for OfRedis {
    async fn advance(&self, step: Duration) {
        self.0.advance(step).await.unwrap();
    }

    async fn requests(&self) -> u64 {
        self.0.requests().await.unwrap()
    }
}

async fn connect(url: &str) -> Arc<dyn Store> {
    Arc::new(RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap())
}
