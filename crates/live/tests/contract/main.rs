//! The contract of a store, on real servers. These tests wait for a server most of the time, and
//! start only the shared servers: many tests run at a time.
//!
//! Each store and each layout passes the whole suite once, with foreign data around every lock.
//! Other ways to the same store pass the cases of a store that do not wait for the end of a lease.
//! The program `matrix` has all the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

#[path = "../stores/mod.rs"]
mod stores;

mod etcd;
mod redis;
