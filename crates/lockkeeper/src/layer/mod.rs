//! Stores made of stores. Each passes every operation on to the store that it is wrapped around, and changes one thing.

mod chaos;
mod faults;

pub use chaos::Chaos;
pub use faults::{Fault, Faults, Operation};
