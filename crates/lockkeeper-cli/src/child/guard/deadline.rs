//! When the guard kills. The order names a time of the clock that all processes share. The guard
//! counts with the same clock as the holder's deadline.

use std::time::Duration;

use lockkeeper::time::{Clock, Instant};

use super::order::now;

/// The time of the shared clock, and the time of the holder's clock just before and just after this
/// reading. A pause between the readings may make a kill early, and never late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    before: Duration,
    pub(super) shared: Duration,
    after: Duration,
}

/// Both clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    holder: Clock,
    origin: Instant,
}

impl Clocks {
    pub(super) fn new() -> Self {
        let holder = Clock::holder();
        let origin = holder.now();
        Self { holder, origin }
    }

    pub(super) fn read(&self) -> Reading {
        let holder = || self.holder.now().saturating_since(self.origin);
        Reading { before: holder(), shared: now(), after: holder() }
    }
}

/// A deadline on the holder's clock. A time daemon that slows the shared clock has no effect on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Duration);

impl Deadline {
    pub(super) fn new(kill_at: Duration, reading: Reading) -> Self {
        Self(reading.before.saturating_add(kill_at.saturating_sub(reading.shared)))
    }

    pub(super) fn left(self, reading: Reading) -> Duration {
        self.0.saturating_sub(reading.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn reading(shared: u32, holder: u32) -> Reading {
        Reading { before: holder * S, shared: shared * S, after: holder * S }
    }

    #[test]
    fn a_shared_clock_that_is_slowed_down_makes_no_kill_late() {
        let deadline = Deadline::new(130 * S, reading(100, 7));
        assert_eq!(deadline.left(reading(100, 7)), 30 * S);
        assert_eq!(deadline.left(reading(118, 27)), 10 * S);
        assert_eq!(deadline.left(reading(127, 37)), Duration::ZERO);
        // A new deadline counts from its own reading.
        let deadline = Deadline::new(130 * S, reading(118, 27));
        assert_eq!(deadline.left(reading(118, 27)), 12 * S);
        // A pause between the readings is taken off.
        let deadline =
            Deadline::new(130 * S, Reading { before: 7 * S, shared: 103 * S, after: 10 * S });
        assert_eq!(
            deadline.left(Reading { before: 8 * S, shared: 104 * S, after: 12 * S }),
            22 * S
        );
        // This deadline had passed before the order was read.
        let deadline = Deadline::new(99 * S, reading(100, 7));
        assert_eq!(deadline.left(reading(100, 7)), Duration::ZERO);
    }

    #[test]
    fn the_clocks_run_alike_where_nobody_touches_them() {
        let clocks = Clocks::new();
        let (first, later) = (clocks.read(), clocks.read());
        let (shared, holder) = (later.shared - first.shared, later.after - first.before);
        assert!(shared.abs_diff(holder) < S, "{first:?} {later:?}");
    }
}
