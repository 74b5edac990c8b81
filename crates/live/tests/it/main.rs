//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod clocks;
mod cluster;
mod ends;
mod proxy;
mod redis;
mod rights;
mod sentinel;
