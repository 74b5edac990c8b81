//! One line: its claims, its holders, and the ends of claims.

use std::sync::Arc;

use rusqlite::params;

use super::claim_row::{ClaimRow, State, claim_rows};
use super::{Txn, read};
use crate::LockName;
use crate::fault::Outcome;
use crate::store::admit::Admission;
use crate::store::{ClaimKey, Revision, SessionId};

/// The front of a line, settled: the holders, and the first that has to wait.
#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(crate) rule: Admission,
    pub(crate) holders: Vec<ClaimRow>,
    pub(crate) first_waiting: Option<ClaimRow>,
}

impl Front {
    /// Any live claim: all claims of a line are of one kind, so the first one shows it.
    pub(crate) fn first(&self) -> Option<&ClaimRow> {
        self.holders.first().or(self.first_waiting.as_ref())
    }

    /// Returns whether the line has another claim than `ord`.
    pub(crate) fn others_than(&self, ord: i64) -> bool {
        self.holders.iter().chain(&self.first_waiting).any(|row| row.ord != ord)
    }
}

impl Txn<'_> {
    /// Removes dead claims from the front, and grants the claims that have become admissible. Stops
    /// at the first live claim that has to wait, so it costs O(holders).
    pub(crate) fn settle(&mut self, name: &LockName) -> Outcome<Front> {
        let mut front = Front::default();
        let (mut dead, mut pushed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let db = self.db;
        let mut walk = db.prepare_cached(claim_rows!("WHERE c.name = ?1 ORDER BY c.ord"))?;
        let mut rows = walk.query([name.as_str().as_bytes()])?;
        while let Some(row) = rows.next()? {
            let mut row = ClaimRow::read(row)?;
            let is_over = self.is_over(&mut row)?;
            if is_over && row.keep(self.now) {
                kept.push(row.clone());
            } else if is_over {
                dead.push(row);
                continue;
            }
            if !front.rule.admit(row.demand()) {
                front.first_waiting = Some(row);
                break;
            } else {
                if !row.granted() {
                    row.state = State::Pushed;
                    pushed.push(row.clone());
                }
                front.holders.push(row);
            }
        }
        drop(rows);
        for row in &dead {
            self.forget(row)?;
        }
        for row in &kept {
            self.write_kept(row)?;
        }
        for row in &pushed {
            self.push(row)?;
        }
        if !pushed.is_empty() {
            self.touch(name)?;
        }
        // This waiter has watched only its predecessor, which is now a holder beside others.
        if let Some(first) =
            front.first_waiting.as_ref().filter(|_| !pushed.is_empty() && front.holders.len() > 1)
        {
            self.wake_session(&first.session)?;
        }
        Ok(front)
    }

    /// Returns whether the lease of a claim has ended, or its process has; the end of a process is
    /// recorded.
    fn is_over(&mut self, row: &mut ClaimRow) -> Outcome<bool> {
        if row.expires() <= self.now {
            return Ok(true);
        }
        let Some(client) = &row.client else { return Ok(false) };
        if !self.dead_clients.is_dead(client) {
            return Ok(false);
        }
        self.declare_dead(client)?;
        // With a lock-delay, the line does not change otherwise yet, and observers wait for the end
        // of the delay.
        self.notifications.name(&row.name);
        row.orphan(self.now);
        Ok(row.expires() <= self.now)
    }

    /// Removes the dead claims just before a waiting claim. inotify reports to each claim when its
    /// predecessor dies, and must not report it again. Returns whether there were any.
    pub(crate) fn remove_dead_before(&mut self, row: &ClaimRow) -> Outcome<bool> {
        let sql = claim_rows!("WHERE c.name = ?1 AND c.ord < ?2 ORDER BY c.ord DESC LIMIT 1");
        let mut found = false;
        while let Some(mut previous) =
            self.first(sql, params![row.name.as_str().as_bytes(), row.ord], ClaimRow::read)?
        {
            if !self.is_over(&mut previous)? {
                break;
            }
            found = true;
            if self.end_claim(previous)? {
                break;
            }
        }
        Ok(found)
    }

    /// Removes the dead from the whole line.
    pub(crate) fn sweep(&mut self, name: &LockName) -> Outcome<()> {
        let claims =
            self.all(claim_rows!("WHERE c.name = ?1"), [name.as_str().as_bytes()], ClaimRow::read)?;
        for mut row in claims {
            if self.is_over(&mut row)? {
                self.end_claim(row)?;
            }
        }
        Ok(())
    }

    /// The claim has no holder any more. Returns whether its minimum hold keeps it in the line.
    pub(crate) fn end_claim(&mut self, mut row: ClaimRow) -> Outcome<bool> {
        let is_kept = row.keep(self.now);
        if is_kept {
            self.write_kept(&row)?
        } else {
            self.forget(&row)?
        }
        Ok(is_kept)
    }

    /// The first that waits has watched the client, and looks now when the minimum hold ends.
    fn write_kept(&mut self, row: &ClaimRow) -> Outcome<()> {
        self.needs_disk |= row.detached;
        self.change(
            "UPDATE lk_claim SET state = 3, session = '', until_us = ?3, asked_by = NULL, asked_reason = NULL, lasts = ?4
             WHERE name = ?1 AND ord = ?2",
            params![row.name.as_str().as_bytes(), row.ord, row.expires(), row.detached],
        )?;
        self.touch(&row.name)?;
        let next = self.next_waiting(row)?;
        next.map_or(Ok(()), |next| self.wake_session(&next))
    }

    pub(crate) fn find(&self, key: &ClaimKey) -> Outcome<Option<ClaimRow>> {
        let sql = claim_rows!("WHERE c.session = ?1 AND c.id = ?2 AND c.name = ?3");
        self.first(
            sql,
            params![key.session.as_str(), key.id.as_bytes(), key.name.as_str().as_bytes()],
            ClaimRow::read,
        )
    }

    /// A grant by another client's request: the claim keeps its present lease.
    fn push(&mut self, row: &ClaimRow) -> Outcome<()> {
        self.change(
            "UPDATE lk_claim SET state = 1, since_us = ?3 WHERE name = ?1 AND ord = ?2",
            params![row.name.as_str().as_bytes(), row.ord, self.now],
        )?;
        self.notifications.session(&row.session);
        Ok(())
    }

    /// The grantee's own request: from now on the claim lives on ttl and lock-delay. A claim that
    /// outlives a restart of the machine is found to hold after the restart, too: else it would
    /// have a waiter's life then, and its holder believes longer. Another client of the session may
    /// be waiting for the grant, and finds it as held.
    pub(crate) fn hold(&mut self, row: &ClaimRow) -> Outcome<()> {
        if row.state == State::Pushed {
            self.needs_disk |= row.detached;
            self.change(
                "UPDATE lk_claim SET state = 2 WHERE name = ?1 AND ord = ?2",
                params![row.name.as_str().as_bytes(), row.ord],
            )?;
            if row.detached {
                self.wake_session(&row.session)?;
            }
        }
        Ok(())
    }

    /// Deletes a claim; its token must not be issued again. If the claim was waiting, its client
    /// may be waiting too, and is woken. So is the next waiter, whose predecessor has changed. The
    /// end of a detached claim outlives a power cut: else the claim would be back after it, for a
    /// whole ttl.
    pub(crate) fn forget(&mut self, row: &ClaimRow) -> Outcome<()> {
        self.needs_disk |= row.detached;
        let name = row.name.as_str().as_bytes();
        self.change("DELETE FROM lk_claim WHERE name = ?1 AND ord = ?2", params![name, row.ord])?;
        self.change(
            "UPDATE lk_lock SET fence = max(fence, ?2), revision = revision + 1 WHERE name = ?1",
            params![name, row.ord],
        )?;
        self.notifications.name(&row.name);
        if row.state == State::Waiting {
            self.wake_session(&row.session)?;
            let next = self.next_waiting(row)?;
            next.map_or(Ok(()), |next| self.wake_session(&next))?;
        }
        Ok(())
    }

    /// Wakes the waiters of this session: they check whether their claims are there, and find their
    /// predecessors.
    fn wake_session(&mut self, session: &SessionId) -> Outcome<()> {
        self.change("UPDATE lk_session SET wakes = wakes + 1 WHERE id = ?1", [session.as_str()])?;
        self.notifications.session(session);
        Ok(())
    }

    /// The session of the next claim in the line.
    fn next_waiting(&self, row: &ClaimRow) -> Outcome<Option<SessionId>> {
        self.first(
            "SELECT session FROM lk_claim WHERE name = ?1 AND state = 0 AND ord > ?2 ORDER BY ord LIMIT 1",
            params![row.name.as_str().as_bytes(), row.ord],
            |row| row.get::<_, Arc<str>>(0).map(SessionId::new),
        )
    }

    /// Records a change of the line.
    pub(crate) fn touch(&mut self, name: &LockName) -> Outcome<()> {
        self.change(
            "UPDATE lk_lock SET revision = revision + 1 WHERE name = ?1",
            [name.as_str().as_bytes()],
        )?;
        self.notifications.name(name);
        Ok(())
    }

    pub(crate) fn revision(&self, name: &LockName) -> Outcome<Revision> {
        Ok(read::revision(self.db, name)?)
    }

    /// How many wait in a line, counted up to `limit`.
    pub(crate) fn waiting(&self, name: &LockName, before: i64, limit: u32) -> Outcome<u32> {
        let counted = self.first(
            "SELECT count(*) FROM (SELECT 1 FROM lk_claim WHERE name = ?1 AND state = 0 AND ord < ?2 LIMIT ?3)",
            params![name.as_str().as_bytes(), before, limit],
            |row| row.get(0),
        )?;
        Ok(counted.unwrap_or(0))
    }
}
