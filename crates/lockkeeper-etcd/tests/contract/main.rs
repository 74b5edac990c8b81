//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
//!
//! Each layout of the store passes the whole suite once, with foreign data around every lock. Other
//! ways to the same store pass the cases of a store that do not wait for the end of a lease. The
//! program `matrix` of `lockkeeper-live` has all the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

#[path = "../stores/mod.rs"]
mod stores;

use lockkeeper_testing::{Crowded, InAStorm};

use self::stores::{BehindTls, OfDebian, Oldest, On, One, SharedWithGo, Three};

lockkeeper_testing::suite! {
    mod etcd_one_crowded;
    harness = Crowded<On<One>>;
    lacks = [PerClaimExpiry, VirtualTime];
    left_out = 5
}

// A lock that foreign clients share has exclusive claims only.
lockkeeper_testing::suite! {
    mod etcd_shared_with_go_crowded;
    harness = Crowded<On<SharedWithGo>>;
    lacks = [MinHold, PerClaimExpiry, ReadWrite, VirtualTime, Weighted];
    left_out = 115
}

lockkeeper_testing::storm_suite! {
    mod etcd_one_in_a_storm;
    harness = InAStorm<On<One>>
}

macro_rules! way_to_etcd {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::way_suite! {
        mod $module;
        harness = $harness;
        lacks = [PerClaimExpiry, VirtualTime];
        left_out = 3
    })*};
}

way_to_etcd! {
    etcd_one: On<One>;
    etcd_three: On<Three>;
    etcd_behind_tls: On<BehindTls>;
    etcd_oldest: On<Oldest>;
    etcd_of_debian: On<OfDebian>;
}
