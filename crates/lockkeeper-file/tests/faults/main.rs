//! Processes that share a file are stopped, killed and forked, and the file is taken away. These
//! tests start processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod kills;
mod processes;
mod registers;
mod worker;
