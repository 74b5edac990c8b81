//! Times in the form of the file.

use std::time::Duration;

use crate::time::{Clock, Instant};

/// Times in the file: µs of the store's clock. They fit for 292 000 years.
pub(crate) type Micros = i64;

/// A point in time in the form of the file.
pub(crate) fn micros(at: Instant) -> Micros {
    i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX)
}

/// The time now, on the clock of the store.
pub(crate) fn now() -> Micros {
    micros(Clock::boot().now())
}

/// A duration in the form of the file.
pub(crate) fn span(d: Duration) -> Micros {
    // Rounded up: a lease in the file is never shorter than the requested one.
    i64::try_from(d.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX / 4)
}

/// A lease in the file is longer than it was granted by at most this.
pub(crate) const SPARE_MAX: Micros = 250_000;

/// The time up to `at`.
pub(crate) fn until(at: Micros, now: Micros) -> Duration {
    Duration::from_micros(u64::try_from(at.saturating_sub(now)).unwrap_or(0))
}
