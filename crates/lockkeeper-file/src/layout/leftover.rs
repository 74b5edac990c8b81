//! Leftovers: claims that their client does not know, since the reply to the claim was lost and the
//! withdrawal too. They would live as long as their session.

use std::collections::{HashMap, HashSet};

use super::{Micros, Txn};
use crate::fault::Outcome;
use crate::store::{ClaimId, Live, SessionId};

/// So few sessions are not looked at.
const LOOK_MIN: usize = 64;

/// Claims that a renewal did not list, and since when.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    unlisted: HashMap<SessionId, Unlisted>,
    /// At this number of sessions, a sweep looks for sessions that ended without a request, as
    /// those of adopted handles do.
    look_at: usize,
}

#[cfg(test)]
impl Txn<'_> {
    /// The number of sessions in memory.
    pub(crate) fn remembered(&self) -> usize {
        self.memory.leftovers.unlisted.len()
    }
}

#[derive(Debug, Default)]
struct Unlisted {
    looked: Micros,
    /// When the session ends without a further renewal.
    ends: Micros,
    since: HashMap<ClaimId, Micros>,
}

impl Leftovers {
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.unlisted.remove(session);
    }

    /// The record of a session that is renewed now.
    fn of(&mut self, session: &SessionId, now: Micros, ttl: Micros) -> &mut Unlisted {
        if self.unlisted.len() >= self.look_at.max(LOOK_MIN) {
            self.unlisted.retain(|_, unlisted| unlisted.ends > now);
            self.look_at = 2 * self.unlisted.len();
        }
        let unlisted = self.unlisted.entry(session.clone()).or_default();
        unlisted.ends = now.saturating_add(2 * ttl);
        unlisted
    }
}

impl Txn<'_> {
    /// Removes the claims of a session that no renewal has listed for a whole ttl.
    ///
    /// One renewal proves nothing: it may list only a part of the claims, and a claim that was sent
    /// while the list was being made is not in it. But a client lists each claim every third of its
    /// ttl, so no client uses a claim that was in no list for a ttl.
    pub(crate) fn drop_leftovers(&mut self, session: &SessionId, live: &[Live], ttl: Micros) -> Outcome<()> {
        let now = self.now;
        let unlisted = self.memory.leftovers.of(session, now, ttl);
        for claim in live {
            unlisted.since.remove(&claim.key.id);
        }
        if now < unlisted.looked.saturating_add(ttl / 2) {
            return Ok(());
        }
        unlisted.looked = now;
        let mut over = self.claims_of(session)?;
        let listed: HashSet<ClaimId> = live.iter().map(|l| l.key.id).collect();
        let unlisted = self.memory.leftovers.of(session, now, ttl);
        unlisted.since.retain(|id, _| over.contains_key(id));
        over.retain(|id, row| {
            !listed.contains(id)
                && now > unlisted.since.entry(*id).or_insert(now).saturating_add(ttl).saturating_add(row.delay())
        });
        self.remove_all(over.into_values())
    }
}
