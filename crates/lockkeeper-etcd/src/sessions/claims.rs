//! The claims of a session, and where each stands.

use std::sync::Arc;

use super::Session;
use crate::layout::Record;
use crate::look::Neighbours;
use crate::store::ClaimId;
use crate::time::Instant;
use crate::wire::Reader;

/// The state of a claim of this client, as far as is known.
#[derive(Clone, Debug)]
pub(crate) struct ClaimState {
    pub(crate) lease: i64,
    /// The revision that made it; 0 before that is known.
    pub(crate) created: i64,
    /// It was found to hold, and stands on a lease for that.
    pub(crate) held: bool,
    /// Its record says since when it holds, and nothing that changes it is on its way.
    pub(crate) is_dated: bool,
    /// When the claim was notified of its grant, if it waited.
    pub(crate) granted: Option<Instant>,
    /// How the claim is notified of its grant while it waits.
    pub(crate) watched: Option<WatchedBy>,
    /// What blocked the claim when it joined the line.
    pub(crate) blocked_by: Option<Neighbours>,
    pub(crate) record: Arc<Record>,
    /// Another client has sent it since, and receives its wake-ups.
    pub(crate) is_elsewhere: bool,
}

/// Hearing of a grant by watches.
#[derive(Clone, Debug)]
pub(crate) struct WatchedBy {
    /// When it was looked at: there was no grant before.
    pub(crate) since: Instant,
    /// The watches that tell of what came after.
    pub(crate) by: Vec<Reader>,
}

impl ClaimState {
    /// Whether it waits, and has heard of its end and of its grant since then. What was told and is
    /// not read yet, perhaps by one that is polled no more, may be its grant.
    pub(crate) fn waits_watched(&self, since: Instant) -> bool {
        let knows_all = |watched_by: &WatchedBy| {
            watched_by.since > since && watched_by.by.iter().all(Reader::is_up_to_date)
        };
        !self.held && self.watched.as_ref().is_some_and(knows_all)
    }
}

impl Session {
    /// The claim stands there, unless it was withdrawn meanwhile.
    pub(crate) fn insert_claim(&self, id: ClaimId, state: ClaimState) {
        let mut inner = self.lock();
        if inner.slots.of(id).is_none() {
            return;
        }
        inner.count(state.lease, 1);
        inner.slots.made(id, state.created);
        if let Some(before) = inner.claims.insert(id, state) {
            inner.count(before.lease, -1);
        }
    }

    /// It was let in, unless it was withdrawn meanwhile.
    pub(crate) fn holds(&self, id: ClaimId, lease: i64, created: i64) {
        let mut inner = self.lock();
        let Some(state) = inner.claims.get_mut(&id) else { return };
        (state.created, state.held) = (created, true);
        inner.is_on(id, lease);
        inner.slots.made(id, created);
    }

    /// The claim was notified of its grant.
    pub(crate) fn was_granted(&self, id: ClaimId, now: Instant) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.granted.get_or_insert(now);
        }
    }

    /// Its record says since when it holds.
    pub(crate) fn is_dated(&self, id: ClaimId) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.is_dated = true;
        }
    }

    /// The claim joined the line behind these neighbours.
    pub(crate) fn waits_for(&self, id: ClaimId, neighbours: Neighbours) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.blocked_by = Some(neighbours.read_before_a_watch());
        }
    }

    /// The claim is notified of its grant from now on, or no longer.
    pub(crate) fn is_watched(&self, id: ClaimId, watched: Option<WatchedBy>) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.watched = watched;
        }
    }

    /// It was looked at then, and waits.
    pub(crate) fn was_looked_at(&self, id: ClaimId, now: Instant) {
        if let Some(watched_by) =
            self.lock().claims.get_mut(&id).and_then(|state| state.watched.as_mut())
        {
            watched_by.since = now;
        }
    }

    pub(crate) fn claim_state(&self, id: ClaimId) -> Option<ClaimState> {
        self.lock().claims.get(&id).cloned()
    }

    /// Another client has sent it since.
    pub(crate) fn is_elsewhere(&self, id: ClaimId) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.is_elsewhere = true;
        }
    }

    /// It shows this now.
    pub(crate) fn shows(&self, id: ClaimId, record: Record) {
        if let Some(state) = self.lock().claims.get_mut(&id) {
            state.record = Arc::new(record);
        }
    }

    /// The claim is not believed in any more. What was known of it.
    pub(crate) fn left(&self, id: ClaimId) -> Option<ClaimState> {
        self.lock().leave(id)
    }
}
