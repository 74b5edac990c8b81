//! The later of two clocks. A time daemon may slow `CLOCK_BOOTTIME` by several per cent while it
//! corrects an offset. Nobody changes the rate of `CLOCK_MONOTONIC_RAW`, but this clock stops
//! during a suspend.
//!
//! Over each second the result advances as far as the faster of the two clocks, the suspended time
//! included.

use std::sync::atomic::{AtomicI64, Ordering};

/// The interval at which the two clocks are aligned again, in nanoseconds: an offset from days of
/// drift must not hide a delay of one clock now.
const ANCHOR: i64 = 1_000_000_000;
/// The longest time between two readings for an anchor: a pause of the thread between them would
/// add to the time.
const TOGETHER: i64 = 50_000;
/// The clocks do not drift this far apart within a second. A larger difference means that the
/// machine was suspended, or a clock is slewed.
const APART: i64 = 1_000_000;

/// The readings of the clocks, in nanoseconds.
pub(super) trait Clocks {
    fn boot(&self) -> i64;
    fn raw(&self) -> i64;
    fn monotonic(&self) -> i64;
}

/// Three offsets that only rise, so a reader does not need all of them from one moment.
#[derive(Debug)]
pub(super) struct Later {
    boot: AtomicI64,
    /// The offset of the raw clock plus the suspended time.
    raw: AtomicI64,
    suspended: AtomicI64,
    anchored: AtomicI64,
}

impl Later {
    pub(super) const fn new() -> Self {
        Self {
            boot: AtomicI64::new(0),
            raw: AtomicI64::new(i64::MIN / 2),
            suspended: AtomicI64::new(0),
            anchored: AtomicI64::new(i64::MIN / 2),
        }
    }

    /// The time. Two readings, and once a second three or four.
    pub(super) fn now(&self, clocks: &impl Clocks) -> i64 {
        let boot = clocks.boot();
        let by_boot = boot + self.boot.load(Ordering::Acquire);
        let mut by_raw = self.by_raw(clocks.raw());
        if by_boot - by_raw > APART {
            // The boot time is read first: a pause of this thread then makes the suspended time
            // shorter, never longer.
            self.suspended.fetch_max(boot - clocks.monotonic(), Ordering::AcqRel);
            by_raw = self.by_raw(clocks.raw());
        }
        let now = by_boot.max(by_raw);
        if now - self.anchored.load(Ordering::Acquire) > ANCHOR {
            self.anchor(clocks);
        }
        now
    }

    fn by_raw(&self, raw: i64) -> i64 {
        let suspended = self.suspended.load(Ordering::Acquire);
        raw.saturating_add(suspended).saturating_add(self.raw.load(Ordering::Acquire))
    }

    /// Aligns the two clocks, if they could be read together.
    fn anchor(&self, clocks: &impl Clocks) {
        let (before, raw, boot) = (clocks.boot(), clocks.raw(), clocks.boot());
        if boot - before > TOGETHER {
            return;
        }
        let (by_boot, by_raw) = (before + self.boot.load(Ordering::Acquire), self.by_raw(raw));
        let now = by_boot.max(by_raw);
        let suspended = self.suspended.load(Ordering::Acquire);
        self.boot.fetch_max(now - before, Ordering::AcqRel);
        self.raw.fetch_max(now - raw - suspended, Ordering::AcqRel);
        self.anchored.fetch_max(now, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// The clocks of a test machine.
    #[derive(Default)]
    struct Machine {
        monotonic: Cell<i64>,
        raw: Cell<i64>,
        suspended: Cell<i64>,
    }

    impl Clocks for Machine {
        fn boot(&self) -> i64 {
            self.monotonic.get() + self.suspended.get()
        }

        fn raw(&self) -> i64 {
            self.raw.get()
        }

        fn monotonic(&self) -> i64 {
            self.monotonic.get()
        }
    }

    impl Machine {
        fn new() -> Self {
            let machine = Self::default();
            machine.monotonic.set(1000 * SECOND);
            machine.raw.set(993 * SECOND);
            machine.suspended.set(77 * SECOND);
            machine
        }

        /// Lets this time pass. The slewed clock shows `per_mille` of it per 1000.
        fn pass(&self, nanos: i64, per_mille: i64) {
            self.monotonic.set(self.monotonic.get() + nanos / 1000 * per_mille);
            self.raw.set(self.raw.get() + nanos);
        }

        fn suspend(&self, nanos: i64) {
            self.suspended.set(self.suspended.get() + nanos);
        }
    }

    /// How much time has passed in each of these steps.
    fn passed(later: &Later, machine: &Machine, step: impl Fn(i64), steps: i64) -> i64 {
        let start = later.now(machine);
        (0..steps).for_each(|i| {
            step(i);
            later.now(machine);
        });
        later.now(machine) - start
    }

    #[test]
    fn a_clock_that_is_slowed_down_shortens_no_lease() {
        let (later, machine) = (Later::new(), Machine::new());
        assert_eq!(later.now(&machine), machine.boot());
        // Days in which the other clock fell behind by seconds.
        passed(&later, &machine, |_| machine.pass(60 * SECOND, 1001), 10_000);
        for steps in [1, 3, 30, 300] {
            let took = passed(&later, &machine, |_| machine.pass(30 * SECOND / steps, 917), steps);
            assert!((took - 30 * SECOND).abs() < 2 * SECOND / 1000, "{took} in {steps}");
        }
    }

    #[test]
    fn a_clock_that_is_sped_up_ends_a_lease_earlier() {
        let (later, machine) = (Later::new(), Machine::new());
        later.now(&machine);
        let took = passed(&later, &machine, |_| machine.pass(SECOND, 1083), 30);
        assert!(took > 32 * SECOND, "{took}");
    }

    #[test]
    fn what_was_slept_counts_once_also_while_a_clock_is_slowed_down() {
        let (later, machine) = (Later::new(), Machine::new());
        later.now(&machine);
        let suspends = |i| {
            machine.pass(SECOND, 917);
            machine.suspend(if i == 10 { 3600 * SECOND } else { 0 });
        };
        let took = passed(&later, &machine, suspends, 30);
        assert!((took - 3630 * SECOND).abs() < SECOND / 100, "{took}");
    }
}
