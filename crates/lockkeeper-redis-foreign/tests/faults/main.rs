//! Other programs on the same locks, and servers, clients and the network that fail, each test in
//! one way with a name. These tests start servers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod clusters;
mod doctor;
mod ends;
mod failovers;
mod fair;
mod leaks;
mod messages;
mod plain;
mod readers;
mod redisson;
mod redisson_fair;
mod redisson_fenced;
mod redisson_rw;
mod redisson_semaphore;
mod rights;
mod rw;
mod semaphores;
mod support;
mod turns;
mod types;
mod watches;

// The simple lock has scripts and waits of its own.
lockkeeper_live::fault_suite! {
    store = lockkeeper_live::ForeignServer<lockkeeper_live::contract::PlainLayout>;
    lacks = [Queue, Registers];
    left_out = 6
}
