//! The contract of a store, on real servers, in each layout with foreign data around every lock.
//! These tests wait for a server most of the time: many tests run at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

use lockkeeper_live::contract::{
    FairLayout, FencedLayout, Moved, OnePermitLayout, PlainLayout, PlainLayoutByResp2,
    RedissonLayout, RwLayout,
};
use lockkeeper_testing::{Crowded, InAStorm};

lockkeeper_testing::suite! {
    mod plain_crowded;
    harness = Crowded<Moved<PlainLayout>>;
    lacks = [MinHold, Queue, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 206
}

lockkeeper_testing::way_suite! {
    mod plain_by_resp2;
    harness = Moved<PlainLayoutByResp2>;
    lacks = [MinHold, Queue, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 101
}

lockkeeper_testing::suite! {
    mod redisson_crowded;
    harness = Crowded<Moved<RedissonLayout>>;
    lacks = [MinHold, Queue, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 206
}

lockkeeper_testing::suite! {
    mod redisson_fenced_crowded;
    harness = Crowded<Moved<FencedLayout>>;
    lacks = [Epochs, MinHold, Queue, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 207
}

lockkeeper_testing::suite! {
    mod redisson_fair_crowded;
    harness = Crowded<Moved<FairLayout>>;
    lacks = [MinHold, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 124
}

lockkeeper_testing::suite! {
    mod redisson_rw_crowded;
    harness = Crowded<Moved<RwLayout>>;
    lacks = [MinHold, Queue, SessionExpiry, VirtualTime, Weighted];
    left_out = 183
}

// The layout keeps no mutexes. A semaphore of one permit stands for each.
lockkeeper_testing::suite! {
    mod redisson_semaphore_crowded;
    harness = Crowded<Moved<OnePermitLayout>>;
    lacks = [Amend, MinHold, Queue, ReadWrite, SessionExpiry, VirtualTime, Weighted];
    left_out = 213
}

lockkeeper_testing::keeper_suite! {
    mod plain_in_a_storm;
    harness = InAStorm<Moved<PlainLayout>>;
    lacks = [MinHold, NoFaults, Queue, ReadWrite, Weighted];
    left_out = 121
}

lockkeeper_testing::keeper_suite! {
    mod redisson_in_a_storm;
    harness = InAStorm<Moved<RedissonLayout>>;
    lacks = [MinHold, NoFaults, Queue, ReadWrite, Weighted];
    left_out = 121
}

lockkeeper_testing::keeper_suite! {
    mod redisson_fair_in_a_storm;
    harness = InAStorm<Moved<FairLayout>>;
    lacks = [MinHold, NoFaults, ReadWrite, Weighted];
    left_out = 107
}

lockkeeper_testing::keeper_suite! {
    mod redisson_rw_in_a_storm;
    harness = InAStorm<Moved<RwLayout>>;
    lacks = [MinHold, NoFaults, Queue, Weighted];
    left_out = 117
}
