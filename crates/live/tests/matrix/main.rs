//! The whole suite in every way to the stores. The program `contract` has the part that a change has to pass; `cargo xtask
//! test --all` runs both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

#[path = "../stores/mod.rs"]
mod stores;

mod etcd;
mod redis;
