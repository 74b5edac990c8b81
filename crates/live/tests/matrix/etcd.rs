//! The whole suite in every way to etcd.

use lockkeeper_testing::InAStorm;

use crate::etcd_stores::{BehindTls, OfDebian, Oldest, On, One, SharedWithGo, Three};

macro_rules! whole_suite {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [PerClaimExpiry, VirtualTime];
        left_out = 5
    })*};
}

whole_suite! {
    etcd_one: On<One>;
    etcd_three: On<Three>;
    etcd_behind_tls: On<BehindTls>;
    etcd_oldest: On<Oldest>;
    etcd_of_debian: On<OfDebian>;
}

lockkeeper_testing::suite! {
    mod etcd_shared_with_go;
    harness = On<SharedWithGo>;
    lacks = [MinHold, PerClaimExpiry, ReadWrite, VirtualTime, Weighted];
    left_out = 115
}

lockkeeper_testing::storm_suite! {
    mod etcd_three_in_a_storm;
    harness = InAStorm<On<Three>>
}
