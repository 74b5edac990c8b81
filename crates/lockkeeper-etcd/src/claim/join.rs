//! Claims that join the line, and wait there if they are not the first.

use std::sync::atomic::Ordering;

use super::transactions::{deletions, garbled, revision};
use super::{Claiming, Joined, Outcome};
use crate::layout::Leaver;
use crate::layout::transaction::{empty_but_for, inners, nested, range, ranges, transaction};
use crate::sessions::Purpose;
use crate::wire::messages::{TxnRequest, TxnResponse};
use crate::{ErrorKind, Result};

/// If the line had more claims than this a moment ago, the transaction does not ask whether it is
/// empty: etcd would read the whole line for that, which takes as long as putting the claim.
const LONG_QUEUE: u32 = 16;

impl Claiming {
    /// Joins the line.
    pub(super) async fn join(&self) -> Result<Outcome> {
        let has_two_ttls = self.is_exclusive() && !self.session.leases.have_one_ttl();
        if !has_two_ttls {
            return self.join_behind(self.store.lease(&self.session, Purpose::Hold).await?).await;
        }
        if self.order_guard.queue_len.load(Ordering::Relaxed) > LONG_QUEUE {
            let wait = self.store.lease(&self.session, Purpose::Wait).await?;
            match self.join_behind(wait).await {
                // The wait lease has ended, and etcd has done nothing.
                Err(error) if error.kind() == ErrorKind::SessionLost => {
                    self.session.leases.ended(wait)
                }
                outcome => return outcome,
            }
        }
        self.join_first_or_behind(self.store.lease(&self.session, Purpose::Hold).await?).await
    }

    /// Joins the line on this lease, wherever that is.
    pub(super) async fn join_behind(&self, lease: i64) -> Result<Outcome> {
        // After a refusal its turn goes on: there may be another lease.
        let (leaving, carrying) = self.leaving(None);
        let answer = self.txn_carrying(self.behind(lease, &leaving), carrying).await?;
        self.end_turn();
        Ok(self.joined_behind(answer, lease))
    }

    /// Joins the line: on the hold lease if the claim is the first, else on a wait lease.
    async fn join_first_or_behind(&self, hold: i64) -> Result<Outcome> {
        let mut wait = self.store.fresh(&self.session, Purpose::Wait);
        loop {
            let (leaving, carrying) = self.leaving(None);
            let request = self.first_or_behind(hold, wait, &leaving);
            let answer = match (self.txn_carrying(request, carrying).await, wait) {
                // The wait lease may be the one that has ended, and etcd has done nothing.
                (Err(error), Some(ended)) if error.kind() == ErrorKind::SessionLost => {
                    self.session.leases.ended(ended);
                    wait = None;
                    continue;
                }
                (answer, _) => answer?,
            };
            let created = revision(&answer);
            if answer.succeeded {
                let line = Vec::new();
                return Ok(Outcome::Joined(Joined {
                    lease: hold,
                    created,
                    line,
                    count: 1,
                    is_dated: true,
                }));
            }
            // The answer of a nested transaction has no header of its own.
            let Some(behind) = inners(answer.responses).next() else { return Err(garbled()) };
            let behind = TxnResponse { header: answer.header, ..behind };
            match wait {
                Some(wait) => return Ok(self.joined_behind(behind, wait)),
                // The new lease is renewed after this claim was asked for, as its waiter counts.
                None if behind.succeeded => {
                    wait = Some(self.store.lease(&self.session, Purpose::Wait).await?)
                }
                None => return Ok(self.known_or_retired(behind.responses)),
            }
        }
    }

    fn first_or_behind(&self, hold: i64, wait: Option<i64>, leaving: &[Leaver]) -> TxnRequest {
        let mut when = self.is_new();
        when.extend(empty_but_for(&self.line, leaving));
        let mut then = deletions(leaving);
        then.extend(self.put(hold, true));
        let behind = match wait {
            Some(wait) => self.behind(wait, leaving),
            // Before a claim has waited there is no wait lease, so this only reads.
            None => transaction(self.is_new(), vec![range(self.ahead())], self.known()),
        };
        transaction(when, then, vec![nested(behind)])
    }

    fn behind(&self, lease: i64, leaving: &[Leaver]) -> TxnRequest {
        let mut then = deletions(leaving);
        then.extend(self.put(lease, false));
        then.push(range(self.ahead()));
        transaction(self.is_new(), then, self.known())
    }

    fn joined_behind(&self, answer: TxnResponse, lease: i64) -> Outcome {
        if !answer.succeeded {
            return self.known_or_retired(answer.responses);
        }
        let created = revision(&answer);
        let ahead = ranges(answer.responses).next().unwrap_or_default();
        // etcd counts all keys of the range, however few it returns.
        let count = u32::try_from(ahead.count).unwrap_or(u32::MAX);
        self.order_guard.queue_len.store(count, Ordering::Relaxed);
        Outcome::Joined(Joined { lease, created, line: self.read(ahead), count, is_dated: false })
    }
}
