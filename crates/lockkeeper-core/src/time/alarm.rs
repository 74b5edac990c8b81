//! Timers for deadlines, on timers of the machine that go on while it is suspended.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::clock::{Clock, Instant, Source};
use super::machine::boot_time;

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
            Source::Boot | Source::Holder => timerfd_create(
                TimerfdClockId::Boottime,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )
            .ok()
            .and_then(register),
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
                Some(timer) if arm(timer.get_ref(), Instant(boot_time()) + left).is_ok() => {
                    fired(timer).await
                }
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
        let timer =
            clock.is_the_machines().then(|| timerfd_create(TimerfdClockId::Realtime, flags).ok());
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

/// Arms the timer for three hundred years; it also fires when the wall clock is set.
fn arm_for_a_set(timer: &OwnedFd) -> rustix::io::Result<()> {
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let spec =
        Itimerspec { it_interval: never, it_value: Timespec { tv_sec: 9_000_000_000, tv_nsec: 0 } };
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
