//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start no process but the servers that they share: many of them run at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod crowd;
mod etcd;
mod redis;
mod servers;
