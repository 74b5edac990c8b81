//! The whole suite in every way to the stores. The programs `contract` of the stores have the part
//! that a change has to pass; `cargo xtask test --all` runs all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod etcd;
mod redis;
mod valkey;
