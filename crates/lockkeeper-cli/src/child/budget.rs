//! How often something may be done that costs, so that it takes no more than a small part of a processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::guard::now;

/// What is done takes one part in so many of a processor's time.
const SHARE: u32 = 500;

/// When it may be done again.
#[derive(Debug, Default)]
pub(super) struct Budget {
    next: Duration,
}

impl Budget {
    pub(super) fn allows(&self) -> bool {
        now() >= self.next
    }

    /// Does it, and lays down the pause that pays for it.
    pub(super) fn spend<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = used();
        let done = work();
        self.next = now() + used().saturating_sub(before) * SHARE;
        done
    }
}

/// What this thread has used of a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_cost_is_paid_by_a_pause() {
        let mut budget = Budget::default();
        assert!(budget.allows());
        let before = now();
        let cost = Duration::from_millis(20);
        budget.spend(|| {
            let began = used();
            while used() - began < cost {}
        });
        assert!(!budget.allows());
        assert!(budget.next - before >= cost * SHARE);
        budget.next = now();
        assert!(budget.allows());
    }
}
