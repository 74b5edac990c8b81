//! Leftovers: claims that the client knows nothing of, since the reply to them was lost and the withdraw too. They
//! would live for as long as their session.
//!
//! Several clients may renew one session, each with a list of its own. So a claim itself says since when nobody has listed
//! it: a client that misses it in its list writes that, and a client that lists it takes that back.

use std::collections::{HashMap, HashSet};

use rusqlite::params;

use super::claim_row::ClaimRow;
use super::{Micros, Txn};
use crate::fault::Outcome;
use crate::store::{ClaimId, Live, SessionId};

/// So few sessions are not looked at.
const LOOK_MIN: usize = 64;

/// When the claims of each session were compared with a list last.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    looked: HashMap<SessionId, LastLook>,
    /// With so many sessions it is looked which have ended without a word, as those of adopted handles do.
    look_at: usize,
}

#[cfg(test)]
impl Txn<'_> {
    /// The number of sessions in memory.
    pub(crate) fn remembered(&self) -> usize {
        self.memory.leftovers.looked.len()
    }
}

#[derive(Debug, Default)]
struct LastLook {
    at: Micros,
    /// When the session has ended if it was renewed no more.
    ends: Micros,
}

impl Leftovers {
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.looked.remove(session);
    }

    /// Whether it is time to look again, at a session that is renewed now.
    fn is_due(&mut self, session: &SessionId, now: Micros, ttl: Micros) -> bool {
        if self.looked.len() >= self.look_at.max(LOOK_MIN) {
            self.looked.retain(|_, looked| looked.ends > now);
            self.look_at = 2 * self.looked.len();
        }
        let looked = self.looked.entry(session.clone()).or_default();
        looked.ends = now.saturating_add(2 * ttl);
        let is_due = now >= looked.at.saturating_add(ttl / 2);
        if is_due {
            looked.at = now;
        }
        is_due
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
        if !self.memory.leftovers.is_due(session, now, ttl) {
            return Ok(());
        }
        let listed: HashSet<ClaimId> = live.iter().map(|l| l.key.id).collect();
        let mut over = Vec::new();
        for row in self.claims_of(session)?.into_values().filter(|row| !listed.contains(&row.id)) {
            match row.unlisted {
                None => self.note_unlisted(&row, Some(now))?,
                Some(since) if now > since.saturating_add(ttl).saturating_add(row.delay()) => over.push(row),
                Some(_) => {}
            }
        }
        self.remove_all(over.into_iter())
    }

    /// Since when no renewal has listed a claim; `None` when one has just done it.
    pub(crate) fn note_unlisted(&self, row: &ClaimRow, since: Option<Micros>) -> Outcome<()> {
        self.change(
            "UPDATE lk_claim SET unlisted_us = ?3 WHERE name = ?1 AND ord = ?2",
            params![row.name.as_str().as_bytes(), row.ord, since],
        )?;
        Ok(())
    }
}
