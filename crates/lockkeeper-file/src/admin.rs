//! For administrators: what is listed, breaking a claim, and asking holders to let go.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::FileStore;
use super::layout::claim_row::{ClaimRow, claim_rows};
use super::layout::times::now;
use super::layout::{Txn, read};
use crate::fault::Outcome;
use crate::liveness::DeadClientCheck;
use crate::store::{Admin, Evict, Evicted, Line, Target};
use crate::{LockName, Result};

#[async_trait]
impl Admin for FileStore {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let look = move |db: &Connection, dead_clients: &mut DeadClientCheck<'_>| {
            read::lines(db, &prefix, after.as_ref(), limit, now(), dead_clients)
        };
        let lines = self.look(look).await?;
        Ok(lines.into_iter().map(|(name, line)| (name, Ok(line))).collect())
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        let (name, target) = (name.clone(), target.clone());
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.write(move |txn| txn.evict(&name, &target, how, &by, &reason)).await
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let (name, by, reason) = (name.clone(), by.to_owned(), reason.to_owned());
        self.write(move |txn| txn.request_release(&name, &by, &reason)).await
    }
}

impl Txn<'_> {
    pub(crate) fn evict(
        &mut self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Outcome<Evicted> {
        self.settle(name)?;
        let claims =
            self.all(claim_rows!("WHERE c.name = ?1"), [name.as_str().as_bytes()], ClaimRow::read)?;
        let meant = |row: &ClaimRow| match target {
            Target::Token(token) => row.granted() && row.token() == *token,
            Target::Id(hash) => row.id.hash() == *hash,
        };
        let Some(row) = claims.into_iter().find(meant) else { return Ok(Evicted::Absent) };
        self.needs_disk |= row.detached;
        match how {
            // No client is left to be informed.
            _ if row.is_kept() => self.remove(&row)?,
            Evict::Mark => self.mark(&row, by, reason)?,
            Evict::Now => {
                // The tombstone stays as long as the claim would have lived.
                self.insert_tombstone(row.id, row.expires(), Some((by, reason)))?;
                self.remove(&row)?;
            }
        }
        Ok(Evicted::Done)
    }

    fn remove(&mut self, row: &ClaimRow) -> Outcome<()> {
        self.forget(row)?;
        self.settle(&row.name).map(drop)
    }

    /// The claim keeps its end, whatever happens to its session; a minimum hold is over.
    fn mark(&mut self, row: &ClaimRow, by: &str, reason: &str) -> Outcome<()> {
        self.change(
            "UPDATE lk_claim SET broken_by = ?3, broken_reason = ?4, until_us = ?5, keep_until_us = 0
             WHERE name = ?1 AND ord = ?2",
            params![row.name.as_str().as_bytes(), row.ord, by, reason, row.expires()],
        )?;
        self.touch(&row.name)
    }

    /// Holders learn of the request by their next renewals, observers by the change of the line.
    pub(crate) fn request_release(
        &mut self,
        name: &LockName,
        by: &str,
        reason: &str,
    ) -> Outcome<bool> {
        self.settle(name)?;
        let asked = self.change(
            "UPDATE lk_claim SET asked_by = ?2, asked_reason = ?3 WHERE name = ?1 AND state IN (1, 2)
             AND broken_by IS NULL",
            params![name.as_str().as_bytes(), by, reason],
        )?;
        self.touch(name)?;
        Ok(asked > 0)
    }
}
