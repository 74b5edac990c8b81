//! Who has a claim that was granted: its own attempt, the guard of that, and guards that have a
//! share in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{COLLECTED, Hold, instant};
use crate::time::Instant;

impl Hold {
    /// It is granted, and waits from now on to be collected, or to be offered again.
    pub(crate) fn offer(&self, now: Instant) {
        self.offered.store(now.as_nanos(), Ordering::Release);
    }

    /// Its attempt shows that it is polled: where it has not collected the grant, it is waited for
    /// from now on.
    pub(in crate::engine) fn offer_still(&self) {
        let now = self.clock.now().as_nanos();
        let extended = |offered: u64| (offered < COLLECTED).then(|| offered.max(now));
        let _ = self.offered.fetch_update(Ordering::AcqRel, Ordering::Acquire, extended);
    }

    /// Its attempt, or its guard, has it.
    pub(crate) fn collect(&self) {
        self.offered.store(COLLECTED, Ordering::Release);
    }

    /// A guard has it besides the one that its own attempt is to make, for as long as the result
    /// lives.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        self.shared.fetch_add(1, Ordering::AcqRel);
        Share(Arc::clone(self))
    }

    /// Since when it was granted without anybody having it.
    pub(in crate::engine) fn offered(&self) -> Option<Instant> {
        if self.shared.load(Ordering::Acquire) > 0 {
            return None;
        }
        instant(self.offered.load(Ordering::Acquire)).filter(|since| since.as_nanos() != COLLECTED)
    }
}

/// A claim's own attempt is one thing, and a guard that has a share in the claim is another.
#[derive(Debug)]
pub(crate) struct Share(Arc<Hold>);

impl Drop for Share {
    /// Where its own attempt has not collected it, that attempt is waited for from now on.
    fn drop(&mut self) {
        let hold = &self.0;
        hold.offer_still();
        hold.shared.fetch_sub(1, Ordering::AcqRel);
    }
}
