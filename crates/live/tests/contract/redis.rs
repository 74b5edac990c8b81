//! The contract of a store on Redis.

use lockkeeper_testing::{Crowded, InAStorm};

use crate::stores::redis::{Moved, On, Resp2, Resp3};
use crate::stores::servers::{BehindTls, BySentinels, Clustered, WithAReplica};

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
