//! The ways to a Redis: to servers that all cases share, and to a server of each case, whose time
//! the case moves.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::layer::Faults;
use lockkeeper::store::{
    Admission, Capabilities, Claim, Driver, Line, MAX, Store, Verdict, forward_store,
};
use lockkeeper::time::Clock;
use lockkeeper::url::{Param, Scheme, StoreUrl, UrlForm, UrlSyntax};
use lockkeeper::{LockName, Result};
use lockkeeper_testing::{Crash, Harness, ServerClock, Time, Ttls, unique_prefix};

use super::{NAME_MAX, servers};
use crate::locks::connected;
use crate::redis::{Redis, RedisBuilder, StandingClock};
use crate::shared::{cluster, redis, redis_tls, sentinel};

/// Makes a suite of each way to a Redis: `$suite` is `suite` or `way_suite` of
/// `lockkeeper_testing`.
#[macro_export]
macro_rules! redis_ways {
    ($suite:ident, left_out = $left_out:literal) => {
        $crate::__ways! {
            $suite, lacks = [SessionExpiry, VirtualTime], left_out = $left_out;
            redis_standalone: $crate::contract::Moved<$crate::contract::Resp3>;
            redis_by_resp2: $crate::contract::Moved<$crate::contract::Resp2>;
            redis_behind_tls: $crate::contract::On<$crate::contract::RedisBehindTls>;
            redis_by_sentinels: $crate::contract::On<$crate::contract::BySentinels>;
            redis_with_a_replica: $crate::contract::On<$crate::contract::WithAReplica>;
            redis_cluster: $crate::contract::On<$crate::contract::Clustered>;
            redis_cluster_crowded:
                $crate::testing::Crowded<$crate::contract::On<$crate::contract::Clustered>>;
        }
    };
}

/// On real servers beside a busy machine, a stall of a second is no loss.
const SHORT: Ttls = Ttls {
    ttl: Duration::from_secs(3),
    wait_ttl: Duration::from_millis(1500),
    lock_delay: Duration::from_secs(1),
};

servers! {
    SHORT, put_foreign_data;
    /// One server.
    Standalone = redis().unwrap().url();
    /// Before the server is a middleman that knows nothing newer than RESP2.
    ByResp2 = Standalone::url() + "?resp=2";
    /// The port of the server is encrypted.
    RedisBehindTls = {
        let redis = redis_tls().unwrap();
        format!("{}?ca={}", redis.url(), redis.certificates().unwrap().authority().display())
    };
    /// Sentinels know the server.
    BySentinels = sentinel().unwrap().url();
    /// Every grant waits for a replica.
    WithAReplica = BySentinels::url() + "?min-replicas=1";
    /// A cluster.
    Clustered = cluster().unwrap().url();
}

fn put_foreign_data(url: &str, name: &LockName, round: usize) {
    match url.starts_with("redis+cluster://") {
        true => cluster().unwrap().put_foreign_data(name, round).unwrap(),
        false => redis().unwrap().put_foreign_data(name, round).unwrap(),
    }
}

/// How the clients of a server speak with it.
pub trait Protocol: Send + Sync + 'static {
    /// The query of the URL.
    const QUERY: &'static str;

    /// The server of a case.
    fn server() -> RedisBuilder {
        Redis::builder()
    }

    /// The store that the cases use, around the one of the URL.
    fn around(store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }

    /// Puts data of others around the lock of this name: see [`Harness::crowd`].
    fn crowd(server: &Redis, name: &LockName, round: usize) {
        server.put_foreign_data(name, round).unwrap();
    }
}

/// The layouts of other libraries, in which the name of a lock is its key.
macro_rules! foreign_layouts {
    ($($(#[$doc:meta])* $layout:ident = $query:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $layout;

        impl Protocol for $layout {
            const QUERY: &'static str = $query;

            fn crowd(server: &Redis, name: &LockName, round: usize) {
                server.put_foreign_data_beside_others(name, round).unwrap();
            }
        }
    )*};
}

foreign_layouts! {
    /// The simple lock.
    PlainLayout = "?layout=plain";
    /// The simple lock, in the protocol of middlemen that know nothing newer.
    PlainLayoutByResp2 = "?layout=plain&resp=2";
    /// `RLock`.
    RedissonLayout = "?layout=redisson";
    /// `RFencedLock`.
    FencedLayout = "?layout=redisson-fenced";
    /// `RFairLock`.
    FairLayout = "?layout=redisson-fair";
    /// `RReadWriteLock`. Some cases have a long ttl.
    RwLayout = "?layout=redisson-rw&watchdog=2h";
}

/// `RReadWriteLock` on Valkey.
#[derive(Debug)]
pub struct RwLayoutOnValkey;

impl Protocol for RwLayoutOnValkey {
    const QUERY: &'static str = RwLayout::QUERY;

    fn server() -> RedisBuilder {
        Redis::builder().valkey()
    }

    fn crowd(server: &Redis, name: &LockName, round: usize) {
        RwLayout::crowd(server, name, round);
    }
}

/// `RPermitExpirableSemaphore` of one permit, which is a mutex.
#[derive(Debug)]
pub struct OnePermitLayout;

impl Protocol for OnePermitLayout {
    const QUERY: &'static str = "?layout=redisson-semaphore";

    fn around(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(OnePermit(store))
    }

    fn crowd(server: &Redis, name: &LockName, round: usize) {
        server.put_foreign_data_beside_others(name, round).unwrap();
    }
}

/// A store of semaphores, in which a mutex is a semaphore of one permit.
#[derive(Debug)]
struct OnePermit(Arc<dyn Store>);

impl std::fmt::Display for OnePermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl Store for OnePermit {
    fn capabilities(&self) -> Capabilities {
        Capabilities { admission: Admission::Exclusive, amend: false, ..self.0.capabilities() }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        let mut line = self.0.line(name).await?;
        for entry in &mut line.entries {
            (entry.weight, entry.capacity) = (MAX, MAX);
        }
        Ok(line)
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.0.claim(&Claim { weight: 1, capacity: 1, ..claim.clone() }).await
    }

    forward_store! { self => self.0;
        admin open renew close amend withdraw wait id fence_key on_loss
    }
}

static URLS: UrlSyntax = UrlSyntax::new(&[Scheme::new("permit", UrlForm::Hosts, "permit://HOST")])
    .params(&[Param::new("layout", ""), Param::new("timeout", "")]);

/// Opens a URL of Redis with another scheme, `permit`, in which a mutex is a semaphore of one
/// permit.
pub static ONE_PERMIT: Driver = Driver::new("one permit", &URLS, |url| {
    Box::pin(async move {
        let url: StoreUrl = url.to_string().replacen("permit", "redis", 1).parse()?;
        let mut drivers = lockkeeper::drivers().into_iter();
        let redis = drivers.find(|driver| driver.has_scheme(url.scheme)).unwrap();
        Ok(Arc::new(OnePermit(redis.open(&url).await?)) as Arc<dyn Store>)
    })
});

/// The usual protocol.
#[derive(Debug)]
pub struct Resp3;

impl Protocol for Resp3 {
    const QUERY: &'static str = "";
}

/// The protocol of middlemen that know nothing newer.
#[derive(Debug)]
pub struct Resp2;

impl Protocol for Resp2 {
    const QUERY: &'static str = "?resp=2";
}

/// Each case has a server of its own, and moves its time.
#[derive(Debug)]
pub struct Moved<P> {
    server: Redis,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Harness for Moved<P> {
    const TIME: Time = Time::Moved;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    const NAME_MAX: usize = NAME_MAX;

    async fn start() -> Self {
        let server = P::server().with_standing_clock().start().unwrap();
        Self { server, protocol: PhantomData }
    }

    async fn client(&self) -> Arc<dyn Store> {
        P::around(connected(&(self.server.url() + P::QUERY)).await)
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The client closes its connection without a message.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        P::crowd(&self.server, name, round);
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        Some(Arc::new(ClockOfCase(self.server.standing_clock().unwrap())))
    }

    /// The foreign data have names beside the names of the case.
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

struct ClockOfCase(StandingClock);

#[async_trait]
impl ServerClock for ClockOfCase {
    async fn advance(&self, step: Duration) {
        self.0.advance(step).await.unwrap();
    }

    async fn requests(&self) -> u64 {
        self.0.requests().await.unwrap()
    }
}
