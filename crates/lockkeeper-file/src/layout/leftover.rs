//! Leftovers: claims that the client does not know, since the reply and the withdrawal were lost.
//! They would live for as long as their session.
//!
//! Several clients may renew one session, each with a list of its own. So the row of a claim has
//! the time since which no client has listed it. A client whose list lacks the claim writes this
//! time, and a client that lists the claim removes it.

use std::collections::HashSet;

use rusqlite::params;

use super::Txn;
use super::claim_row::ClaimRow;
use super::times::Micros;
use crate::fault::Outcome;
use crate::store::{ClaimId, Live, SessionId};

impl Txn<'_> {
    /// Removes the claims of a session that no renewal has listed for a whole ttl.
    ///
    /// One renewal proves nothing: it may list only a part of the claims, and a claim that was sent
    /// while the list was being made is not in it. But a client lists each claim every third of its
    /// ttl, so no client uses a claim that was in no list for a ttl.
    pub(crate) fn drop_leftovers(
        &mut self,
        session: &SessionId,
        live: &[Live],
        ttl: Micros,
    ) -> Outcome<()> {
        let now = self.now;
        if !self.memory.leftovers.is_due(session, now, ttl) {
            return Ok(());
        }
        let listed: HashSet<ClaimId> = live.iter().map(|l| l.key.id).collect();
        let mut over = Vec::new();
        for row in self.claims_of(session)?.into_values().filter(|row| !listed.contains(&row.id)) {
            match row.unlisted {
                None => self.note_unlisted(&row, Some(now))?,
                Some(since) if now > since.saturating_add(ttl).saturating_add(row.delay()) => {
                    over.push(row)
                }
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

    /// The number of sessions in memory.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.memory.leftovers.len()
    }
}
