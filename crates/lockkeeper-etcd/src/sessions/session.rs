//! One session of this client.
//!
//! Its leases, its claims and its lists each have a lock of their own. A change of a claim counts
//! the claim on its lease while the claims are locked, and locks are taken in no other order.

use std::sync::Arc;
use std::time::Duration;

use super::claims::Claims;
use super::leases::Leases;
use super::lists::Lists;
use crate::gates::LeaseGate;
use crate::layout::Lines;
use crate::store::{Live, SessionId, SessionSpec};
use crate::time::Instant;
use crate::wire::messages::KeyValue;

/// A session of this client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The durations with which the session was opened.
    pub(crate) spec: SessionSpec,
    /// The revision that created the record of a detached session. It distinguishes the session
    /// from a later one with the same id. 0 for a session that is not detached.
    pub(crate) recorded: i64,
    pub(crate) leases: Arc<Leases>,
    pub(crate) claims: Claims,
    pub(crate) lists: Lists,
    /// The calls that make a lease pass this one after the other.
    pub(crate) gate: LeaseGate,
}

impl Session {
    /// A session that was opened. `is_new`: this client has just made its first lease, so that
    /// nothing of the session is anywhere. A detached session was `recorded` by this revision.
    pub(super) fn opened(
        lines: &Lines,
        id: &SessionId,
        spec: &SessionSpec,
        is_new: bool,
        recorded: i64,
        sent: Instant,
    ) -> Self {
        let leases = Arc::new(Leases::new(lines.lease_of(id), spec, sent));
        Self {
            id: id.clone(),
            spec: spec.clone(),
            recorded,
            claims: Claims::new(Arc::clone(&leases), is_new && !spec.detached),
            lists: Lists::new(leases.whole()),
            leases,
            gate: LeaseGate::default(),
        }
    }

    /// Whether a key that this revision has created can belong to the session. A session that had
    /// the same id and has ended may have left an older key.
    pub(crate) fn may_have_made(&self, created: i64) -> bool {
        created >= self.recorded
    }

    /// Adds the leases that these keys of the session show.
    pub(super) fn learn_leases(&self, lines: &Lines, found: &[KeyValue], now: Instant) {
        let own = found.iter().filter(|kv| self.may_have_made(kv.create_revision));
        self.leases.learn(lines, &self.id, own, now);
    }

    /// The ttl that counts for a claim of this session with this ttl.
    pub(crate) fn keeps(&self, ttl: Duration) -> Duration {
        self.spec.ttl.min(ttl)
    }

    /// Whether other clients may use the session at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.spec.detached
    }

    /// The leases whose keys a renewal has to list: those of claims whose end no watch would
    /// report, and from time to time all of them, for keys that this client does not know.
    pub(crate) fn to_list(
        &self,
        leases: &[i64],
        live: &[Live],
        trusted: Instant,
        now: Instant,
    ) -> Vec<i64> {
        let is_due = self.lists.is_due(now);
        match self.claims.to_list(live, trusted) {
            Some(needed) if !is_due => {
                leases.iter().copied().filter(|lease| needed.contains(lease)).collect()
            }
            _ => leases.to_vec(),
        }
    }
}
