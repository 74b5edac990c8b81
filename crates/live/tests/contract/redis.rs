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
                hold::what_was_released_is_kept,
                hold::what_was_kept_is_the_next_ones,
                hold::who_waits_gets_it_when_it_is_over,
                hold::a_dead_holders_lock_is_kept,
                hold::a_crashed_holders_lock_is_kept,
                hold::a_closed_session_leaves_it,
                hold::a_late_release_is_immediate,
                hold::it_begins_when_it_is_asked_for,
                hold::a_waiter_has_none,
                hold::what_is_kept_is_nobodys,
                hold::a_reader_keeps_its_share,
                hold::permits_are_kept_one_by_one,
                hold::permits_that_were_kept_let_the_next_in,
                hold::a_replacement_inherits_it,
                hold::what_was_lowered_is_kept_as_it_is,
                hold::a_break_ends_it,
                withdraw::a_tombstone_stands_for_its_time,
                session::an_unknown_session_is_lost,
                session::a_closed_session_is_lost,
                session::an_expired_session_is_lost,
                session::leftovers_are_removed,
                min_hold::a_release_leaves_the_rest_to_the_store,
                min_hold::a_drop_and_a_shutdown_leave_it,
                min_hold::it_costs_nothing_once_it_is_over,
                min_hold::who_gives_up_keeps_nothing,
                min_hold::each_task_has_its_own,
                min_hold::a_multi_lock_that_gets_not_all_keeps_none,
                min_hold::an_entry_of_its_owner_has_it,
                min_hold::a_conversion_keeps_it,
                min_hold::nobody_leads_while_it_lasts,
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
