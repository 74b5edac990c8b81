//! Foreign clients that lock in etcd and in Redis, beside each other and beside lockkeeper: each is
//! a program of its own, see `interop/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod contender;
mod etcd;
mod lines;
mod redis;
