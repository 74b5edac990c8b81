//! The whole suite in every way to etcd.

use lockkeeper_live::contract::{On, SharedWithGo, ThreeMembers};
use lockkeeper_testing::InAStorm;

lockkeeper_live::etcd_ways! { suite, left_out = 5 }

lockkeeper_testing::suite! {
    mod etcd_shared_with_go;
    harness = On<SharedWithGo>;
    lacks = [MinHold, PerClaimExpiry, ReadWrite, VirtualTime, Weighted];
    left_out = 115
}

lockkeeper_testing::storm_suite! {
    mod etcd_three_in_a_storm;
    harness = InAStorm<On<ThreeMembers>>
}
