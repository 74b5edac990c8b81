//! The whole suite in every way to Redis.

use lockkeeper_live::contract::{BySentinels, Clustered, On};
use lockkeeper_testing::InAStorm;

lockkeeper_live::redis_ways! { suite, left_out = 14 }

lockkeeper_testing::storm_suite! {
    mod redis_by_sentinels_in_a_storm;
    harness = InAStorm<On<BySentinels>>
}

lockkeeper_testing::storm_suite! {
    mod redis_cluster_in_a_storm;
    harness = InAStorm<On<Clustered>>
}
