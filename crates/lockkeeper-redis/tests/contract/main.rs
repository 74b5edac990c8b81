//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
//!
//! Each layout of the store passes the whole suite once, with foreign data around every lock. Other
//! ways to the same store pass the cases of a store that do not wait for the end of a lease. The
//! program `matrix` of `lockkeeper-live` has all the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

use lockkeeper_live::contract::{Moved, Resp3};
use lockkeeper_testing::{Crowded, InAStorm};

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

lockkeeper_live::redis_ways! { way_suite, left_out = 9 }
