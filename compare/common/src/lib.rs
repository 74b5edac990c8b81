//! What the comparisons share: the clock, the orders and the trace of runner and clients; the
//! clients' tasks; and how the runner measures.

pub mod client;
pub mod clock;
pub mod order;
pub mod runner;
pub mod trace;
