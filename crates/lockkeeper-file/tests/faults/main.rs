//! Processes that share a file are stopped, killed and forked, and the file is taken away. These
//! tests start processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod processes;
mod registers;
mod runtimes;
mod store;
mod worker;

lockkeeper_live::fault_suite! {
    store = crate::store::InAFile;
    lacks = [Clock, Server];
    left_out = 22
}
