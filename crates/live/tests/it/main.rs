//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod clocks;
mod cluster;
mod contract;
mod ends;
mod faults;
mod fences;
mod kills;
mod proxy;
mod redis;
mod registers;
mod rights;
mod scripts;
mod sentinel;
mod topologies;
mod worker;
