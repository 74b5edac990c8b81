//! When the watchdog of a session looks next, and how to wake it before that.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::time::Instant;

#[derive(Debug, Default)]
pub(in crate::engine) struct WatchdogTimer {
    /// When the watchdog looks next without a wake-up.
    planned: AtomicU64,
    wake: Notify,
}

impl WatchdogTimer {
    /// The watchdog begins its look: every time that is planned from now on wakes it again.
    pub(in crate::engine) fn begin(&self) {
        self.planned.store(u64::MAX, Ordering::Release);
    }

    /// The watchdog looks again at `next`.
    pub(in crate::engine) fn set(&self, next: Instant) {
        self.planned.store(next.as_nanos(), Ordering::Release);
    }

    pub(in crate::engine) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Wakes the watchdog. Callable from any thread.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes the watchdog if its next look is later than `at`.
    pub(in crate::engine) fn wake_by(&self, at: Instant) {
        if at.as_nanos() < self.planned.load(Ordering::Acquire) {
            self.wake();
        }
    }
}
