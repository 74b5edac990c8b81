//! The clocks of this process, and their points in time.

use std::future::Future;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant as TokioInstant;

use super::machine::{boot_time, holder_time, wall_offset};

/// A point in time of this process's [`Clock`]. It means nothing to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(super) Duration);

impl Instant {
    /// Nanoseconds since the clock's origin, to be kept in an atomic.
    #[doc(hidden)]
    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    #[doc(hidden)]
    pub fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// The time from `earlier` until `self`; zero if `earlier` is not earlier.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d))
    }
}

/// The source of the time.
#[derive(Clone, Debug)]
pub struct Clock(pub(super) Source);

#[derive(Clone, Debug)]
pub(super) enum Source {
    Boot,
    Holder,
    Tokio { origin: TokioInstant, wall: Arc<Wall> },
}

/// How far the wall clock of a test was set.
#[derive(Debug, Default)]
pub(super) struct Wall {
    nanos: AtomicI64,
    pub(super) set: Notify,
}

impl Clock {
    /// The clock of a holder: [`boot`](Self::boot), or `CLOCK_MONOTONIC_RAW` plus the suspended
    /// time if that is later. So a time daemon that slows the machine's clock does not let a guard
    /// report a lock as held for too long. On other systems than Linux this is
    /// [`boot`](Self::boot).
    pub fn holder() -> Self {
        Self(Source::Holder)
    }

    /// The machine's time since boot, suspended time included: `CLOCK_BOOTTIME`, or on other
    /// systems than Linux the monotonic clock.
    pub fn boot() -> Self {
        Self(Source::Boot)
    }

    /// The time of the tokio runtime, which a test can pause and advance (`tokio::time::pause`).
    ///
    /// All parts that share state must share one such clock: give the same clock to the store and
    /// to the keeper.
    pub fn tokio() -> Self {
        // The origin is later than zero, so a subtraction from an early instant does not saturate.
        Self(Source::Tokio { origin: TokioInstant::now(), wall: Arc::default() })
    }

    /// Returns whether every thread sees the same time.
    #[doc(hidden)]
    pub fn is_the_machines(&self) -> bool {
        matches!(self.0, Source::Boot | Source::Holder)
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::Boot => Instant(boot_time()),
            Source::Holder => Instant(holder_time()),
            Source::Tokio { origin, .. } => Instant(Duration::from_secs(3600) + origin.elapsed()),
        }
    }

    /// Moves the wall clock of a test on virtual time ahead by `by`. This is as if the machine had
    /// been paused and its wall clock had been corrected after that. The call has no effect on the
    /// machine's own clock.
    #[cfg(feature = "testing")]
    pub fn set_wall_clock_ahead(&self, by: Duration) {
        if let Source::Tokio { wall, .. } = &self.0 {
            wall.nanos
                .fetch_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX), Ordering::AcqRel);
            wall.set.notify_waiters();
        }
    }

    /// How far the wall clock is ahead of the time since boot, in nanoseconds. This changes only
    /// when the wall clock is set: a slew affects both clocks.
    #[doc(hidden)]
    pub fn wall_offset(&self) -> i64 {
        match &self.0 {
            Source::Boot | Source::Holder => wall_offset(),
            Source::Tokio { wall, .. } => wall.nanos.load(Ordering::Acquire),
        }
    }

    /// Sleeps for `d` of the runtime's time. This is for waiting and pacing, not for deadlines: the
    /// runtime's time stops while the machine is suspended.
    ///
    /// # Cancel safety
    /// The future only waits, and may be dropped.
    pub async fn sleep(&self, d: Duration) {
        tokio::time::sleep(d).await;
    }

    /// Awaits `f` for at most `d`. The result is `None` when the time is over.
    ///
    /// # Cancel safety
    /// `f` is dropped with this future, and when the time is over.
    pub async fn timeout<F: Future>(&self, d: Duration, f: F) -> Option<F::Output> {
        tokio::time::timeout(d, f).await.ok()
    }
}
