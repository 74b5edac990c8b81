//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

use lockkeeper_live::contract::{FiveNodes, On, ThreeNodes};
use lockkeeper_testing::Crowded;

lockkeeper_testing::suite! {
    mod redlock_crowded;
    harness = Crowded<On<ThreeNodes>>;
    lacks = [
        Amend, Detached, MinHold, Queue, SessionExpiry, VirtualTime, Weighted,
    ];
    left_out = 216
}

lockkeeper_testing::way_suite! {
    mod redlock_of_five;
    harness = On<FiveNodes>;
    lacks = [
        Amend, Detached, MinHold, Queue, SessionExpiry, VirtualTime, Weighted,
    ];
    left_out = 105
}
