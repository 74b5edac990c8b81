//! The protections of the engine, one at a time: on virtual time, and on a store that follows the
//! rules of a test.

mod breaking;
mod conversions;
mod deadlines;
mod detached;
mod ending;
mod left_alone;
mod lost_upgrades;
mod min_hold;
mod reconnects;
mod reentry;
mod renewals;
mod sessions;
mod set_clocks;
pub(crate) mod spy;
mod unfair;
mod unpolled;
mod waiting;
mod watching;
