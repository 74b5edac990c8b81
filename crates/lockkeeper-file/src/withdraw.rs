//! Withdrawals: of one claim, and of all claims of a session that ends; and what keeps a late copy
//! of a claim out.

use std::time::Duration;

use rusqlite::params;

use super::layout::Txn;
use super::layout::claim_row::ClaimRow;
use super::layout::times::{Micros, span};
use crate::LockName;
use crate::fault::Outcome;
use crate::store::{Broken, ClaimId, ClaimKey, SessionId, TOMBSTONE_MIN, Withdrawal};

/// The most tombstones, or closed ids, that one request clears away.
const CLEAR_MAX: u32 = 64;

impl Txn<'_> {
    pub(crate) fn withdraw(
        &mut self,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Outcome<Withdrawal> {
        if let Some(lease) = tombstone {
            self.tombstone(key, lease)?;
        }
        let Some(row) = self.find(key)? else { return Ok(Withdrawal::Absent) };
        self.remove_all(std::iter::once(row))?;
        Ok(Withdrawal::Removed)
    }

    /// Withdraws all claims of the session. Its requests under way come before, since each client's
    /// requests run in order.
    pub(crate) fn close(&mut self, session: &SessionId) -> Outcome<()> {
        let claims = self.claims_of(session)?;
        self.remove_all(claims.into_values())?;
        let detached = self.first(
            "DELETE FROM lk_session WHERE id = ?1 RETURNING detached",
            [session.as_str()],
            |row| row.get(0),
        )?;
        self.needs_disk |= detached.unwrap_or(false);
        self.remember_closed(session)?;
        self.note_the_time()?;
        self.memory.leftovers.forget(session);
        Ok(())
    }

    /// Remembers the session as closed: no client opens it again for a while.
    fn remember_closed(&self, session: &SessionId) -> Outcome<()> {
        self.change(
            "DELETE FROM lk_closed WHERE id IN (SELECT id FROM lk_closed WHERE until_us <= ?1 LIMIT ?2)",
            params![self.now, CLEAR_MAX],
        )?;
        self.change(
            "INSERT INTO lk_closed (id, until_us) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET until_us = max(until_us, excluded.until_us)",
            params![session.as_str(), self.now.saturating_add(span(TOMBSTONE_MIN))],
        )?;
        Ok(())
    }

    /// Removes claims of any lines, except those that a minimum hold keeps, and grants the claims
    /// that become admissible.
    pub(crate) fn remove_all(&mut self, rows: impl Iterator<Item = ClaimRow>) -> Outcome<()> {
        let mut lines: Vec<LockName> = Vec::new();
        for row in rows {
            lines.push(row.name.clone());
            self.end_claim(row)?;
        }
        lines.sort();
        lines.dedup();
        for name in &lines {
            self.settle(name)?;
        }
        Ok(())
    }

    /// The client of a detached claim may be on another host, and its copy may arrive after a power
    /// cut of this one.
    pub(crate) fn tombstone(&mut self, key: &ClaimKey, lease: Duration) -> Outcome<()> {
        let sql = "SELECT 1 FROM lk_session WHERE id = ?1 AND detached = 1";
        self.needs_disk |= self.first(sql, [key.session.as_str()], |_| Ok(()))?.is_some();
        self.insert_tombstone(key.id, self.now.saturating_add(span(lease)), None)
    }

    /// Adds a tombstone: no claim with this id is granted any more. The tombstone names the
    /// operator who removed the claim, if there was one.
    pub(crate) fn insert_tombstone(
        &mut self,
        id: ClaimId,
        until: Micros,
        broken: Option<(&str, &str)>,
    ) -> Outcome<()> {
        let (by, reason) = broken.unzip();
        self.change(
            "DELETE FROM lk_gone WHERE id IN (SELECT id FROM lk_gone WHERE until_us <= ?1 LIMIT ?2)",
            params![self.now, CLEAR_MAX],
        )?;
        self.change(
            "INSERT INTO lk_gone (id, until_us, broken_by, broken_reason) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET until_us = max(until_us, excluded.until_us)",
            params![id.as_bytes(), until, by, reason],
        )?;
        Ok(())
    }

    /// The operator who removed a claim at once, and the reason, if there was one.
    pub(crate) fn who_removed(&self, id: ClaimId) -> Outcome<Option<Broken>> {
        let sql =
            "SELECT broken_by, broken_reason FROM lk_gone WHERE id = ?1 AND broken_by IS NOT NULL";
        self.first(sql, [id.as_bytes()], |row| {
            Ok(Broken { by: row.get(0)?, reason: row.get(1)?, removed: true })
        })
    }
}
