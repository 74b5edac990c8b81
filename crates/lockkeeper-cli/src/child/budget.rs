//! Limits how often an expensive action happens, so that the action takes only a small part of a
//! processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::guard::now;

/// The action leaves at least this time before a deadline.
const SPARE: Duration = Duration::from_millis(100);

/// The earliest time of the next action.
#[derive(Debug)]
pub(super) struct Budget {
    share: u32,
    next: Duration,
    /// How long the last action took.
    took: Duration,
}

/// When the action began, and how much processor time this thread had used by then.
pub(super) struct Begun(Duration, Duration);

impl Budget {
    /// The action takes one part in `share` of a processor's time.
    pub(super) fn new(share: u32) -> Self {
        Self { share, next: Duration::ZERO, took: Duration::ZERO }
    }

    /// Returns whether the action is allowed now, and leaves enough time before a deadline that
    /// comes after `left`.
    pub(super) fn allows(&self, left: Duration) -> bool {
        now() >= self.next && left > self.took * 2 + SPARE
    }

    pub(super) fn begin(&self) -> Begun {
        Begun(now(), used())
    }

    /// Sets the pause that pays for the action.
    pub(super) fn pay(&mut self, Begun(began, before): Begun) {
        self.took = now().saturating_sub(began);
        self.next = now() + used().saturating_sub(before) * self.share;
    }
}

/// The processor time that this thread has used.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_action_is_followed_by_a_pause_and_not_done_before_a_deadline() {
        let (mut budget, cost) = (Budget::new(500), Duration::from_millis(20));
        assert!(budget.allows(Duration::MAX));
        let begun = budget.begin();
        let began = used();
        while used() - began < cost {}
        let before = now();
        budget.pay(begun);
        assert!(!budget.allows(Duration::MAX));
        assert!(budget.next - before >= cost * 500);
        budget.next = now();
        assert!(budget.allows(Duration::MAX));
        assert!(!budget.allows(budget.took * 2 + SPARE));
    }
}
