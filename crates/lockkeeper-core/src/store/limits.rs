//! The numbers that all stores share.

use std::time::Duration;

/// The weight, and the capacity, of an exclusive claim.
pub const MAX: u32 = u32::MAX;

/// How long a tombstone lasts at least, and how long a store remembers a closed session.
pub const TOMBSTONE_MIN: Duration = Duration::from_secs(60);
