//! The one clock. All code that reads the time or sleeps uses this module.
//!
//! Deadlines use `CLOCK_BOOTTIME` where the system has it. This clock goes on while the machine is suspended, so leases
//! that expired during the suspension are lost when the machine wakes up.

mod later;

use std::future::Future;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant as TokioInstant;

/// The allowed difference between two clocks with slightly different rates, over one lease: 0.5 %
/// each way.
const DRIFT_PER_MILLE: u32 = 5;
/// The allowance for the granularity of timers and clocks.
const GRANULARITY: Duration = Duration::from_millis(5);

/// A point in time of this process's [`Clock`]. It means nothing to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

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
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    Holder,
    Tokio { origin: TokioInstant, wall: Arc<Wall> },
}

/// How far the wall clock of a test was set.
#[derive(Debug, Default)]
struct Wall {
    nanos: AtomicI64,
    set: Notify,
}

impl Clock {
    /// The clock of a holder: [`boot`](Self::boot), or `CLOCK_MONOTONIC_RAW` plus the suspended
    /// time if that is later. So a time daemon that slows the machine's clock does not let a guard
    /// report a lock as held for too long. On other systems than Linux this is
    /// [`boot`](Self::boot).
    pub fn holder() -> Self {
        Self(Source::Holder)
    }

    /// The machine's time since boot, suspended time included: `CLOCK_BOOTTIME`, or on other systems than Linux the
    /// monotonic clock.
    pub fn boot() -> Self {
        Self(Source::Boot)
    }

    /// The time of the tokio runtime, which a test can pause and advance (`tokio::time::pause`).
    ///
    /// All parts that share state must share one such clock: give the same clock to the store and to the keeper.
    pub fn tokio() -> Self {
        // Some room before the origin, so that subtracting from an early instant does not saturate.
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

    /// Moves the wall clock of a test on virtual time ahead by `by`. This is as if the machine had been paused and its
    /// wall clock had been corrected after that. The call has no effect on the machine's own clock.
    #[cfg(feature = "testing")]
    pub fn set_wall_clock_ahead(&self, by: Duration) {
        if let Source::Tokio { wall, .. } = &self.0 {
            wall.nanos.fetch_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX), Ordering::AcqRel);
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
    pub async fn sleep(&self, d: Duration) {
        tokio::time::sleep(d).await;
    }

    /// Awaits `f` for at most `d`. The result is `None` when the time is over.
    pub async fn timeout<F: Future>(&self, d: Duration, f: F) -> Option<F::Output> {
        tokio::time::timeout(d, f).await.ok()
    }
}

/// Makes one timer of each kind that the engine uses, and drops it.
///
/// # Panics
/// As tokio does in a runtime that cannot have such a timer.
#[doc(hidden)]
pub fn probe() {
    drop((Alarm::new(Clock::boot()), tokio::time::sleep(Duration::ZERO)));
}

/// Blocks the thread for `d`. Only for threads of our own, never on a runtime.
#[doc(hidden)]
pub fn pause(d: Duration) {
    std::thread::sleep(d);
}

/// How long a guard may report a lock with a lease of `lease` as held, counted from the instant *before* the holder
/// sent the request that the store acknowledged: `lease · (1 − ρ)/(1 + ρ) − 5 ms`, ρ = 0.5 %. The store's clock may run
/// fast by ρ, and the clock of this process slow by ρ.
pub fn believed(lease: Duration) -> Duration {
    let nanos = lease.as_nanos() * u128::from(1000 - DRIFT_PER_MILLE) / u128::from(1000 + DRIFT_PER_MILLE);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(GRANULARITY)
}

/// The longest apparent duration of a lease of `lease`, counted from an instant *after* the store's
/// grant: the store's clock may go slowly and ours fast by ρ.
#[doc(hidden)]
pub fn lasts_at_most(lease: Duration) -> Duration {
    let nanos = lease.as_nanos() * u128::from(1000 + DRIFT_PER_MILLE) / u128::from(1000 - DRIFT_PER_MILLE);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) + GRANULARITY
}

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
fn holder_time() -> Duration {
    static LATER: later::Later = later::Later::new();
    Duration::from_nanos(LATER.now(&Machine).unsigned_abs())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn holder_time() -> Duration {
    boot_time()
}

fn wall_offset() -> i64 {
    // A thread that is put aside between two readings would show a jump: the closest of three are taken.
    let read = || {
        let before = nanos_of(CLOCK);
        let wall = nanos_of(rustix::time::ClockId::Realtime);
        let after = nanos_of(CLOCK);
        (after - before, wall - before)
    };
    let (_, offset) = [read(), read(), read()].into_iter().min().unwrap_or_default();
    offset
}

fn boot_time() -> Duration {
    reading(CLOCK)
}

fn reading(clock: rustix::time::ClockId) -> Duration {
    let t = rustix::time::clock_gettime(clock);
    // Both are never negative on the clocks that are read here.
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

#[doc(hidden)]
pub use alarm::{Alarm, WallAlarm};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod alarm {
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Clock, Duration, Instant, Source, boot_time};

    /// A timer for deadlines: unlike the runtime's timers, it fires even if the machine was
    /// suspended.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct Alarm {
        clock: Clock,
        timer: Option<AsyncFd<OwnedFd>>,
    }

    impl Alarm {
        /// Must be called on the runtime. Without a timer of its own (no such call, no descriptor
        /// left) the alarm looks at the clock every second.
        #[doc(hidden)]
        pub fn new(clock: Clock) -> Self {
            let timer = match clock.0 {
                Source::Boot | Source::Holder => {
                    timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
                        .ok()
                        .and_then(register)
                }
                Source::Tokio { .. } => None,
            };
            Self { clock, timer }
        }

        /// Completes when the clock has reached `when`. Dropping the future does not disarm the
        /// timer; the next call sets it again.
        #[doc(hidden)]
        pub async fn at(&self, when: Instant) {
            while self.clock.now() < when {
                let left = when.saturating_since(self.clock.now());
                match &self.timer {
                    Some(timer) if arm(timer.get_ref(), Instant(boot_time()) + left).is_ok() => fired(timer).await,
                    _ if self.clock.is_the_machines() => {
                        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
                    }
                    _ => tokio::time::sleep(left).await,
                }
            }
        }
    }

    /// Completes when the wall clock is set.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct WallAlarm {
        clock: Clock,
        timer: Option<AsyncFd<OwnedFd>>,
    }

    impl WallAlarm {
        /// Must be called on the runtime. Without a timer of its own, the alarm completes every
        /// second, since the clock may have been set.
        #[doc(hidden)]
        pub fn new(clock: Clock) -> Self {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = clock.is_the_machines().then(|| timerfd_create(TimerfdClockId::Realtime, flags).ok());
            let timer = timer.flatten().and_then(register);
            Self { clock, timer }
        }

        /// Completes when the wall clock was set, or may have been, since this was called.
        #[doc(hidden)]
        pub async fn set(&self) {
            match (&self.clock.0, &self.timer) {
                (Source::Tokio { wall, .. }, _) => wall.set.notified().await,
                (_, Some(timer)) if arm_for_a_set(timer.get_ref()).is_ok() => fired(timer).await,
                _ => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    /// In three hundred years, or when the wall clock is set.
    fn arm_for_a_set(timer: &OwnedFd) -> rustix::io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: never, it_value: Timespec { tv_sec: 9_000_000_000, tv_nsec: 0 } };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(timer, flags, &spec).map(drop)
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

    async fn fired(timer: &AsyncFd<OwnedFd>) {
        let Ok(mut guard) = timer.readable().await else {
            // The runtime is ending, and with it every task that waits for the timer.
            return std::future::pending().await;
        };
        let mut expirations = [0_u8; 8];
        let read = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?));
        drop(read);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod alarm {
    use super::{Clock, Duration, Instant, Source};

    /// Says every second that the wall clock may have been set.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct WallAlarm(Clock);

    impl WallAlarm {
        #[doc(hidden)]
        pub fn new(clock: Clock) -> Self {
            Self(clock)
        }

        #[doc(hidden)]
        pub async fn set(&self) {
            match &self.0.0 {
                Source::Tokio { wall, .. } => wall.set.notified().await,
                _ => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    /// A timer for deadlines. It looks at the clock at least once a second, since the runtime's
    /// timers stop while the machine is suspended.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct Alarm {
        clock: Clock,
    }

    impl Alarm {
        #[doc(hidden)]
        pub fn new(clock: Clock) -> Self {
            Self { clock }
        }

        #[doc(hidden)]
        pub async fn at(&self, when: Instant) {
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
        // The slowest store clock and the fastest holder: the store keeps ttl/(1+ρ) of real time,
        // the holder's lock is valid for at most believed(ttl)/(1−ρ).
        let kept = ttl.as_secs_f64() / 1.005;
        let real = believed(ttl).as_secs_f64() / 0.995;
        assert!(real < kept);
        assert_eq!(believed(Duration::from_millis(5)), Duration::ZERO);
    }

    #[test]
    fn the_clock_of_a_holder_is_never_behind_that_of_the_machine() {
        let (boot, holder) = (Clock::boot(), Clock::holder());
        let first = (boot.now(), holder.now());
        for _ in 0..100_000 {
            let (boot, holder) = (boot.now(), holder.now());
            assert!(holder >= boot, "{holder:?} {boot:?}");
        }
        std::thread::sleep(Duration::from_millis(1500));
        let (boot, holder) = (boot.now().saturating_since(first.0), holder.now().saturating_since(first.1));
        assert!(holder < boot + Duration::from_millis(20), "{holder:?} {boot:?}");
    }

    #[tokio::test]
    async fn an_alarm_completes_at_its_time_and_can_be_set_again() {
        for (clock, ms) in
            [Clock::boot(), Clock::holder()].into_iter().flat_map(|c| [20, 1, 0].map(|ms| (c.clone(), ms)))
        {
            let alarm = Alarm::new(clock.clone());
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
