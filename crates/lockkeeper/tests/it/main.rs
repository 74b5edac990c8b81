//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod blocking;
mod bounds;
mod by_session;
mod chaos;
mod contract;
mod conveniences;
mod crowd;
mod custom_store;
mod dedicated;
mod drivers;
mod engine;
mod histories;
mod leading;
mod metrics;
mod outside;
mod pages;
mod prefixes;
mod promises;
mod registers;
mod serial;
mod spans;
mod test_store;
mod web;
mod wrong_stores;
