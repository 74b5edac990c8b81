//! The integration tests, in one binary.

mod contract;
mod processes;
mod worker;
