//! Timers for deadlines on a system without such timers of its own: they look at the clock.

use std::time::Duration;

use super::clock::{Clock, Instant, Source};

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
