//! The servers of a Redlock, their clients, and the network between them fail, each test in one way
//! with a name. These tests start servers and processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod bad_input;
mod beside;
mod claims;
mod crowds;
mod kleppmann;
mod lines;
mod majority;
mod members;
mod mended;
mod nodes;
mod one;
mod restarts;
mod rule;
mod support;
mod tls;

lockkeeper_live::fault_suite! {
    store = lockkeeper_live::RedlockServer;
    lacks = [Queue, Detached, Registers];
    left_out = 12
}
