//! The whole suite in every way to Redis.

use lockkeeper_testing::{Crowded, InAStorm};

use crate::redis_stores::servers::{BehindTls, BySentinels, Clustered, WithAReplica};
use crate::redis_stores::{Moved, On, Resp2, Resp3};

macro_rules! whole_suite {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [SessionExpiry, VirtualTime];
        left_out = 14
    })*};
}

whole_suite! {
    redis_standalone: Moved<Resp3>;
    redis_by_resp2: Moved<Resp2>;
    redis_behind_tls: On<BehindTls>;
    redis_by_sentinels: On<BySentinels>;
    redis_with_a_replica: On<WithAReplica>;
    redis_cluster: On<Clustered>;
    redis_cluster_crowded: Crowded<On<Clustered>>;
}

lockkeeper_testing::storm_suite! {
    mod redis_by_sentinels_in_a_storm;
    harness = InAStorm<On<BySentinels>>
}

lockkeeper_testing::storm_suite! {
    mod redis_cluster_in_a_storm;
    harness = InAStorm<On<Clustered>>
}
