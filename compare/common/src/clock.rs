//! The clock that all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A millisecond.
pub const MILLI: u64 = 1_000_000;
/// A second.
pub const SECOND: u64 = 1_000 * MILLI;

/// CLOCK_MONOTONIC in nanoseconds.
pub fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * SECOND + now.tv_nsec.cast_unsigned()
}

/// Blocks the thread.
pub fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(nanos())));
}
