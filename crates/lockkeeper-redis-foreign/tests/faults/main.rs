//! Other programs on the same locks, and servers, clients and the network that fail, each test in
//! one way with a name. These tests start servers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod clusters;
mod doctor;
mod ends;
mod messages;
mod plain;
mod redisson;
mod rw;
mod semaphores;
mod support;
mod types;
