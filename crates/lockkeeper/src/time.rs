//! The one clock. Everything that asks for the time or sleeps does it here.
//!
//! Deadlines are kept on `CLOCK_BOOTTIME` where there is one: it goes on while the machine is suspended, so that a
//! machine which wakes up knows that its leases have ended.

use std::future::Future;
use std::ops::{Add, Sub};
use std::time::Duration;

use tokio::time::Instant as TokioInstant;

/// What two clocks that run at slightly different rates may differ by, over one lease: 0.5 % each way.
const DRIFT_PER_MILLE: u32 = 5;
/// What is taken off for the granularity of timers and clocks.
const GRANULARITY: Duration = Duration::from_millis(5);

/// A point in time of this process's [`Clock`]. Means nothing to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Nanoseconds since the clock's origin, to be kept in an atomic.
    pub(crate) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// How long it is from `earlier` until `self`, or zero when it is not earlier.
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

/// Where the time comes from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    Tokio { origin: TokioInstant },
}

impl Clock {
    /// The machine's time since boot, suspended time included (`CLOCK_BOOTTIME`; elsewhere than on Linux the
    /// monotonic clock).
    pub fn boot() -> Self {
        Self(Source::Boot)
    }

    /// The time of the tokio runtime, which a test can pause and advance (`tokio::time::pause`).
    ///
    /// Everything that shares state must share one such clock: give the same one to the store and to the keeper.
    pub fn tokio() -> Self {
        // Some room before the origin, so that subtracting from an early instant does not saturate.
        Self(Source::Tokio { origin: TokioInstant::now() })
    }

    /// Whether it is the same on every thread.
    pub(crate) fn is_the_machines(&self) -> bool {
        matches!(self.0, Source::Boot)
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::Boot => Instant(boot_time()),
            Source::Tokio { origin } => Instant(Duration::from_secs(3600) + origin.elapsed()),
        }
    }

    /// Sleeps for `d` of the runtime's time. For waiting and pacing, not for deadlines: it stands still while the
    /// machine is suspended.
    pub async fn sleep(&self, d: Duration) {
        tokio::time::sleep(d).await;
    }

    /// Awaits `f` for at most `d`; `None` when the time is over.
    pub async fn timeout<F: Future>(&self, d: Duration, f: F) -> Option<F::Output> {
        tokio::time::timeout(d, f).await.ok()
    }
}

/// Blocks the thread for `d`. Only for threads of our own, never on a runtime.
#[cfg(all(feature = "file", target_os = "linux"))]
pub(crate) fn pause(d: Duration) {
    std::thread::sleep(d);
}

/// How long the holder may believe in a lease of `life`, counted from the instant *before* the request was sent that
/// the store answered: `life · (1 − ρ)/(1 + ρ) − 5 ms`, ρ = 0.5 %. The store's clock may run fast and ours slow by ρ.
pub fn believed(life: Duration) -> Duration {
    let nanos = life.as_nanos() * u128::from(1000 - DRIFT_PER_MILLE) / u128::from(1000 + DRIFT_PER_MILLE);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(GRANULARITY)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

fn boot_time() -> Duration {
    let t = rustix::time::clock_gettime(CLOCK);
    // Both are never negative on a clock that starts at boot.
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// The wall clock, in µs since 1970: for the first token of a new file and for people. Nothing is decided by it.
#[cfg(any(feature = "redis", all(feature = "file", target_os = "linux")))]
pub(crate) fn wall_micros() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let micros = i128::from(t.tv_sec) * 1_000_000 + i128::from(t.tv_nsec) / 1000;
    u64::try_from(micros).unwrap_or(1)
}

pub(crate) use alarm::Alarm;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod alarm {
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Clock, Duration, Instant, Source};

    /// A timer for deadlines: it goes off although the machine was suspended, unlike the runtime's own.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        clock: Clock,
        timer: Option<AsyncFd<OwnedFd>>,
    }

    impl Alarm {
        /// Must be called on the runtime. Without a timer of its own (no such call, no descriptor left) it looks at
        /// the clock every second.
        pub(crate) fn new(clock: Clock) -> Self {
            let timer = match clock.0 {
                Source::Boot => {
                    timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
                        .ok()
                        .and_then(register)
                }
                Source::Tokio { .. } => None,
            };
            Self { clock, timer }
        }

        /// Completes when the clock has reached `when`. Dropping it disarms nothing; the next call arms anew.
        pub(crate) async fn at(&self, when: Instant) {
            while self.clock.now() < when {
                let left = when.saturating_since(self.clock.now());
                match &self.timer {
                    Some(timer) if arm(timer.get_ref(), when).is_ok() => ring(timer).await,
                    _ if matches!(self.clock.0, Source::Boot) => {
                        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
                    }
                    _ => tokio::time::sleep(left).await,
                }
            }
        }
    }

    #[allow(
        deprecated,
        reason = "an OwnedFd is the descriptor's only owner, which is what its unsafe successor asks for"
    )]
    fn register(timer: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(timer, Interest::READABLE).ok()
    }

    fn arm(timer: &OwnedFd, when: Instant) -> rustix::io::Result<()> {
        let value = Timespec {
            tv_sec: i64::try_from(when.0.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(when.0.subsec_nanos()).max(1),
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).map(drop)
    }

    async fn ring(timer: &AsyncFd<OwnedFd>) {
        let Ok(mut guard) = timer.readable().await else {
            // The runtime is going away; so is everything that waits for it.
            return std::future::pending().await;
        };
        let mut expirations = [0_u8; 8];
        let read = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?));
        drop(read);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod alarm {
    use super::{Clock, Duration, Instant};

    /// A timer for deadlines. It looks at the clock at least once a second, since the runtime's timers stand still
    /// while the machine is suspended.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        clock: Clock,
    }

    impl Alarm {
        pub(crate) fn new(clock: Clock) -> Self {
            Self { clock }
        }

        pub(crate) async fn at(&self, when: Instant) {
            loop {
                let left = when.saturating_since(self.clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_secs(1))).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_believes_less_than_the_store_keeps() {
        let ttl = Duration::from_secs(30);
        // The slowest store clock and the fastest holder: the store keeps ttl/(1+ρ) of real time, the holder
        // believes for at most believed(ttl)/(1−ρ).
        let kept = ttl.as_secs_f64() / 1.005;
        let real = believed(ttl).as_secs_f64() / 0.995;
        assert!(real < kept);
        assert_eq!(believed(Duration::from_millis(5)), Duration::ZERO);
    }

    #[tokio::test]
    async fn an_alarm_rings_at_its_time_and_can_be_set_again() {
        let clock = Clock::boot();
        let alarm = Alarm::new(clock.clone());
        for ms in [20, 1, 0] {
            let when = clock.now() + Duration::from_millis(ms);
            alarm.at(when).await;
            assert!(clock.now() >= when);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_only_when_it_is_awaited() {
        let clock = Clock::tokio();
        let start = clock.now();
        Alarm::new(clock.clone()).at(start + Duration::from_secs(3600)).await;
        assert_eq!(clock.now().saturating_since(start), Duration::from_secs(3600));
    }
}
