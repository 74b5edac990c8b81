//! What the runner and the clients share: the clock, the orders, the trace.

pub mod clock;
pub mod order;
pub mod trace;
