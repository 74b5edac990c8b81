//! The wall clock of this machine. No decision of etcd depends on it: records show it to people,
//! and it ends a minimum hold that a new leader of etcd has lengthened.

use std::time::Duration;

use crate::time::wall_micros;

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    wall_micros() / 1000
}

/// A duration in milliseconds.
pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
