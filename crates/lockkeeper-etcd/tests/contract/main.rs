//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
//!
//! Each layout of the store passes the whole suite once, with foreign data around every lock. Other
//! ways to the same store pass the cases of a store that do not wait for the end of a lease. The
//! program `matrix` of `lockkeeper-live` has all the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

use lockkeeper_live::contract::{On, OneMember, SharedWithGo};
use lockkeeper_testing::{Crowded, InAStorm};

lockkeeper_testing::suite! {
    mod etcd_one_crowded;
    harness = Crowded<On<OneMember>>;
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
    harness = InAStorm<On<OneMember>>
}

lockkeeper_live::etcd_ways! { way_suite, left_out = 3 }
