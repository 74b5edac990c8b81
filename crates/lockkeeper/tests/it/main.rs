//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod by_session;
mod chaos;
mod contract;
mod processes;
mod worker;
mod wrong_stores;
