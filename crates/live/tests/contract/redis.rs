//! The contract of a store, on real Redis servers.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::testing::{Crash, Crowded, Harness, InAStorm, Lives, Time, unique_prefix};
use lockkeeper::time::Clock;
use lockkeeper::{LockName, RedisStore};

use crate::crowd;
use crate::servers::{BehindTls, ByResp2, BySentinels, Clustered, Servers, Standalone, WithAReplica};

/// In every way to reach it, alone and in a crowd.
macro_rules! redis_suite {
    (mod $module:ident; harness = $harness:ty) => {
        lockkeeper::suite! {
            mod $module;
            harness = $harness;
            left_out = [
                withdraw::a_tombstone_stands_for_its_time,
                session::an_unknown_session_is_lost,
                session::a_closed_session_is_lost,
                session::an_expired_session_is_lost,
                session::leftovers_are_removed,
            ]
        }
    };
}

redis_suite! {
    mod redis_standalone;
    harness = On<Standalone>
}

redis_suite! {
    mod redis_by_resp2;
    harness = On<ByResp2>
}

redis_suite! {
    mod redis_behind_tls;
    harness = On<BehindTls>
}

redis_suite! {
    mod redis_by_sentinels;
    harness = On<BySentinels>
}

redis_suite! {
    mod redis_with_a_replica;
    harness = On<WithAReplica>
}

redis_suite! {
    mod redis_cluster;
    harness = On<Clustered>
}

redis_suite! {
    mod redis_standalone_crowded;
    harness = Crowded<On<Standalone>>
}

redis_suite! {
    mod redis_cluster_crowded;
    harness = Crowded<On<Clustered>>
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

/// Cases have names of their own on servers that they share.
struct On<S>(PhantomData<S>);

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

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::redis::comes(&S::url(), name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Lives {
        // Real servers beside a busy machine: a stall of a second is no loss.
        Lives { ttl: Duration::from_secs(3), wait_ttl: Duration::from_millis(1500), lock_delay: Duration::from_secs(1) }
    }

    fn weather(&self) -> Faults {
        Faults::none()
    }
}
