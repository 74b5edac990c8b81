//! The contract of a store, on real Redis servers.

use std::marker::PhantomData;
use std::sync::Arc;

use lockkeeper::RedisStore;
use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::testing::{Crash, Harness, InAStorm, Lives, Time, unique_prefix};
use lockkeeper::time::Clock;

/// On one server, in every way to reach it.
macro_rules! redis_suite {
    (mod $module:ident; servers = $servers:ty) => {
        lockkeeper::suite! {
            mod $module;
            harness = On<$servers>;
            left_out = [
                "withdraw::a_tombstone_stands_for_its_time",
                "session::an_unknown_session_is_lost",
                "session::a_closed_session_is_lost",
                "session::an_expired_session_is_lost",
                "session::leftovers_are_removed",
            ]
        }
    };
}

redis_suite! {
    mod redis_standalone;
    servers = Standalone
}

redis_suite! {
    mod redis_by_resp2;
    servers = ByResp2
}

redis_suite! {
    mod redis_behind_tls;
    servers = BehindTls
}

redis_suite! {
    mod redis_by_sentinels;
    servers = BySentinels
}

redis_suite! {
    mod redis_with_a_replica;
    servers = WithAReplica
}

redis_suite! {
    mod redis_cluster;
    servers = Clustered
}

lockkeeper::storm_suite! {
    mod redis_by_sentinels_in_a_storm;
    harness = InAStorm<On<BySentinels>>
}

lockkeeper::storm_suite! {
    mod redis_cluster_in_a_storm;
    harness = InAStorm<On<Clustered>>
}

lockkeeper::storm_suite! {
    mod redis_in_a_storm;
    harness = InAStorm<On<Standalone>>
}

/// What all cases of a suite share.
pub(crate) trait Servers: Send + Sync + 'static {
    /// Where they are.
    fn url() -> String;
}

pub(crate) struct Standalone;

impl Servers for Standalone {
    fn url() -> String {
        lockkeeper_live::redis().unwrap().url()
    }
}

/// For what stands before a server and knows nothing newer.
pub(crate) struct ByResp2;

impl Servers for ByResp2 {
    fn url() -> String {
        Standalone::url() + "?resp=2"
    }
}

pub(crate) struct BehindTls;

impl Servers for BehindTls {
    fn url() -> String {
        let redis = lockkeeper_live::redis_tls().unwrap();
        format!("{}?ca={}", redis.url(), redis.certificates().unwrap().authority().display())
    }
}

pub(crate) struct BySentinels;

impl Servers for BySentinels {
    fn url() -> String {
        lockkeeper_live::sentinel().unwrap().url()
    }
}

/// Every grant waits for a replica.
pub(crate) struct WithAReplica;

impl Servers for WithAReplica {
    fn url() -> String {
        BySentinels::url() + "?min-replicas=1"
    }
}

pub(crate) struct Clustered;

impl Servers for Clustered {
    fn url() -> String {
        lockkeeper_live::cluster().unwrap().url()
    }
}

/// Cases have names of their own on servers that they share.
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
        Arc::new(RedisStore::from_url(&S::url().parse().unwrap()).unwrap().connect().await.unwrap())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // It closes its connection and says nothing.
        drop(client);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Lives {
        Lives::quick()
    }

    fn weather(&self) -> Faults {
        Faults::none()
    }
}
