//! The users of a granted claim: its own attempt, the guard of this attempt, and the guards that
//! share the claim.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{COLLECTED, Hold, instant};
use crate::time::Instant;

impl Hold {
    /// The claim is granted. From now on it waits for its attempt to collect it, or to offer it
    /// again.
    pub(crate) fn offer(&self, now: Instant) {
        self.offered.store(now.as_nanos(), Ordering::Release);
    }

    /// The claim's attempt shows that it is polled. If it has not collected the grant, the wait
    /// begins again.
    pub(in crate::engine) fn offer_still(&self) {
        let now = self.clock.now().as_nanos();
        let extended = |offered: u64| (offered < COLLECTED).then(|| offered.max(now));
        let _ = self.offered.fetch_update(Ordering::AcqRel, Ordering::Acquire, extended);
    }

    /// The claim's attempt, or its guard, has collected the grant.
    pub(crate) fn collect(&self) {
        self.offered.store(COLLECTED, Ordering::Release);
    }

    /// Adds a guard beside the guard of the claim's own attempt, for as long as the result lives.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        self.shared.fetch_add(1, Ordering::AcqRel);
        Share(Arc::clone(self))
    }

    /// Since when the claim is granted and not collected.
    pub(in crate::engine) fn offered(&self) -> Option<Instant> {
        if self.shared.load(Ordering::Acquire) > 0 {
            return None;
        }
        instant(self.offered.load(Ordering::Acquire)).filter(|since| since.as_nanos() != COLLECTED)
    }
}

/// A share in a claim. The claim's own attempt has no `Share`.
#[derive(Debug)]
pub(crate) struct Share(Arc<Hold>);

impl Drop for Share {
    /// If the claim's own attempt has not collected the grant, the wait for it begins now.
    fn drop(&mut self) {
        let hold = &self.0;
        hold.offer_still();
        hold.shared.fetch_sub(1, Ordering::AcqRel);
    }
}
