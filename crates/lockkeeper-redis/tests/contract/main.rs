//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
//!
//! Each layout of the store passes the whole suite once, with foreign data around every lock. Other
//! ways to the same store pass the cases of a store that do not wait for the end of a lease. The
//! program `matrix` of `lockkeeper-live` has all the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

#[allow(dead_code, reason = "what only `faults` needs")]
#[path = "../stores/mod.rs"]
mod stores;

use lockkeeper_testing::{Crowded, InAStorm};

use self::stores::servers::{BehindTls, BySentinels, Clustered, WithAReplica};
use self::stores::{Moved, On, Resp2, Resp3};

lockkeeper_testing::suite! {
    mod redis_standalone_crowded;
    harness = Crowded<Moved<Resp3>>;
    lacks = [SessionExpiry, VirtualTime];
    left_out = 14
}

lockkeeper_testing::storm_suite! {
    mod redis_in_a_storm;
    harness = InAStorm<Moved<Resp3>>
}

macro_rules! way_to_redis {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::way_suite! {
        mod $module;
        harness = $harness;
        lacks = [SessionExpiry, VirtualTime];
        left_out = 9
    })*};
}

way_to_redis! {
    redis_standalone: Moved<Resp3>;
    redis_by_resp2: Moved<Resp2>;
    redis_behind_tls: On<BehindTls>;
    redis_by_sentinels: On<BySentinels>;
    redis_with_a_replica: On<WithAReplica>;
    redis_cluster: On<Clustered>;
    redis_cluster_crowded: Crowded<On<Clustered>>;
}
