//! The claims of a session whose minimum hold a timer times.

use std::time::Duration;

use super::Session;
use crate::keep::Timer;
use crate::store::ClaimId;
use crate::time::Instant;

impl Session {
    /// This times the minimum hold of a claim, which is on that lease now.
    pub(crate) fn is_timed(&self, id: ClaimId, timer: Timer, on: i64) {
        let mut inner = self.lock();
        inner.slots.times(id, timer);
        inner.is_on(id, on);
        if let Some(state) = inner.claims.get_mut(&id) {
            state.held = true;
        }
    }

    /// The claim is about to be changed by something that may come late: no renewal takes it to be
    /// where it was before its record was written again, after which what is late changes nothing.
    pub(crate) fn is_unsettled(&self, id: ClaimId) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.is_dated = false;
        }
    }

    /// This may time the minimum hold of a claim: nobody has heard.
    pub(crate) fn may_be_timed(&self, id: ClaimId, lease: i64) {
        self.lock().slots.may_time(id, lease);
    }

    /// This times the minimum hold that a claim inherits.
    pub(crate) fn times(&self, id: ClaimId, timer: Timer) {
        self.lock().slots.times(id, timer);
    }

    /// What times the minimum hold of a claim here, if anything does.
    pub(crate) fn timer(&self, id: ClaimId) -> Option<Timer> {
        self.lock().slots.of(id).and_then(|slot| slot.timer)
    }

    /// Whether what times its claims is known here, if anything does: no other client has them.
    pub(crate) fn knows_timers(&self) -> bool {
        self.reuses_keys
    }

    /// When the last renewal of this lease of holders was sent, and for how long it lives from then
    /// on. That another client has renewed it may not be known.
    pub(crate) fn renewal_of(&self, lease: i64) -> (Instant, Duration) {
        let inner = self.lock();
        let lease = inner.leases.iter().find(|own| own.id == lease);
        let ttl = |seconds: i64| Duration::from_secs(seconds.max(self.hold).unsigned_abs());
        lease.map_or((Instant::from_nanos(0), Duration::ZERO), |lease| {
            (lease.renewed, ttl(lease.ttl))
        })
    }
}
