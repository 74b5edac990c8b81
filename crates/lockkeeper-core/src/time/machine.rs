//! The clocks of the machine.

use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::later;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// The clocks of this machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
struct Machine;

#[cfg(any(target_os = "linux", target_os = "android"))]
impl later::Clocks for Machine {
    fn boot(&self) -> i64 {
        nanos_of(rustix::time::ClockId::Boottime)
    }

    fn raw(&self) -> i64 {
        nanos_of(rustix::time::ClockId::MonotonicRaw)
    }

    fn monotonic(&self) -> i64 {
        nanos_of(rustix::time::ClockId::Monotonic)
    }
}

fn nanos_of(clock: rustix::time::ClockId) -> i64 {
    i64::try_from(reading(clock).as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn holder_time() -> Duration {
    static LATER: later::Later = later::Later::new();
    Duration::from_nanos(LATER.now(&Machine).unsigned_abs())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn holder_time() -> Duration {
    boot_time()
}

pub(super) fn wall_offset() -> i64 {
    // A pause of the thread between two readings would look like a jump: the closest of three pairs
    // counts.
    let read = || {
        let before = nanos_of(CLOCK);
        let wall = nanos_of(rustix::time::ClockId::Realtime);
        let after = nanos_of(CLOCK);
        (after - before, wall - before)
    };
    let (_, offset) = [read(), read(), read()].into_iter().min().unwrap_or_default();
    offset
}

pub(super) fn boot_time() -> Duration {
    reading(CLOCK)
}

fn reading(clock: rustix::time::ClockId) -> Duration {
    let t = rustix::time::clock_gettime(clock);
    // These clocks are never negative.
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// The wall clock, in µs since 1970: for the first token of a new file, for people, and for claims
/// that are kept for too long without a holder. It decides nothing about the validity of a holder.
#[doc(hidden)]
pub fn wall_micros() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let micros = i128::from(t.tv_sec) * 1_000_000 + i128::from(t.tv_nsec) / 1000;
    u64::try_from(micros).unwrap_or(1)
}
