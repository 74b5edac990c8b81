//! The whole suite in every way to the stores. The programs `contract` of the stores have the part
//! that a change has to pass; `cargo xtask test --all` runs all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod etcd;
#[path = "../../../lockkeeper-etcd/tests/stores/mod.rs"]
mod etcd_stores;
mod redis;
#[allow(dead_code, reason = "what only `faults` of Redis needs")]
#[path = "../../../lockkeeper-redis/tests/stores/mod.rs"]
mod redis_stores;
