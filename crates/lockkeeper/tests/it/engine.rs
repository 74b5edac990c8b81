//! What the engine protects, one protection at a time: on virtual time, and on a store that does as it is told.

mod conversions;
mod deadlines;
mod detached;
mod ending;
mod reentry;
mod renewals;
mod sessions;
pub(crate) mod spy;
mod unfair;
mod waiting;
mod watching;
