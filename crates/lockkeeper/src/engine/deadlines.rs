//! When the timer of the deadlines looks next, and how to wake it earlier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::time::Instant;

/// The handle of the timer: it wakes the timer when a deadline is earlier than the one that the
/// timer is set to.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set_to: AtomicU64,
    /// The earliest deadline that was reported since a scan began.
    reported: AtomicU64,
    notify: Notify,
}

impl Deadlines {
    /// A claim ends at `at`.
    pub(super) fn expect(&self, at: Instant) {
        // These accesses and those of `run` have one order: either `run` finds this deadline, or
        // this call finds the time that the timer is set to.
        self.0.reported.fetch_min(at.as_nanos(), Ordering::SeqCst);
        if at.as_nanos() < self.0.set_to.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Deadlines that are reported from here on are read at the end of the scan. They do not wake
    /// the timer, which would begin another scan.
    pub(super) fn begin(&self) {
        self.0.reported.store(u64::MAX, Ordering::SeqCst);
        self.0.set_to.store(0, Ordering::SeqCst);
    }

    /// Sets the timer to the earlier of two deadlines: the one that the scan found, and the
    /// earliest one that was reported during the scan.
    pub(super) fn set(&self, found: Option<Instant>) -> Option<Instant> {
        let mut next = found.map_or(u64::MAX, Instant::as_nanos);
        self.0.set_to.store(next, Ordering::SeqCst);
        next = next.min(self.0.reported.load(Ordering::SeqCst));
        self.0.set_to.store(next, Ordering::SeqCst);
        (next != u64::MAX).then(|| Instant::from_nanos(next))
    }

    pub(super) fn wake(&self) {
        self.0.notify.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.0.notify.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[tokio::test]
    async fn a_deadline_during_a_scan_is_read_at_its_end_without_another_scan() {
        let timer = Deadlines::default();
        timer.begin();
        timer.expect(at(50));
        timer.expect(at(70));
        assert_eq!(timer.set(Some(at(60))), Some(at(50)));
        timer.expect(at(55));
        assert!(!has_fired(&timer).await, "nothing is earlier");
        timer.expect(at(40));
        assert!(has_fired(&timer).await, "it is set to something later");
        timer.begin();
        assert_eq!(timer.set(None), None);
        timer.expect(at(90));
        assert!(has_fired(&timer).await, "it is set to nothing");
    }

    /// Whether the timer was woken.
    async fn has_fired(timer: &Deadlines) -> bool {
        tokio::select! {
            biased;
            () = timer.woken() => true,
            () = std::future::ready(()) => false,
        }
    }
}
