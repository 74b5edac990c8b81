//! The common parts of the comparisons: the clock, the orders and the trace of runner and clients;
//! the tasks of the clients; and the measurements of the runner.

pub mod client;
pub mod clock;
pub mod order;
pub mod runner;
pub mod trace;
