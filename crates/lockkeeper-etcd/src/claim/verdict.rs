//! The verdict about a claim, once its transaction was processed.

use std::sync::Arc;
use std::time::Duration;

use super::refusals::check;
use super::{Claiming, Earlier, Joined, Outcome};
use crate::layout::transaction::{all, changed, leased, put, transaction};
use crate::layout::{Contender, Layout, Record, ahead_of, mark};
use crate::look::{ClaimStatus, Found};
use crate::look::{Neighbours, SHORT_QUEUE};
use crate::random::jittered;
use crate::sessions::{ClaimState, Purpose};
use crate::store::{Revision, Verdict};
use crate::{Error, ErrorKind, Result, fault};

/// The engine claims again after this time if it learns nothing, for which etcd reads the whole
/// line. The wait looks more often.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

impl Claiming {
    pub(super) async fn verdict_of(&self, outcome: Outcome) -> Result<Verdict> {
        match outcome {
            Outcome::Retired => Ok(Verdict::Gone),
            Outcome::Outside { line, revision } => Ok(busy(&line, revision)),
            Outcome::Held { lease, created, is_dated } => {
                Ok(self.granted(&self.record, lease, created, is_dated))
            }
            Outcome::Joined(joined) => self.has_joined(joined).await,
            Outcome::Known(earlier) => self.was_there(*earlier).await,
        }
    }

    /// The claim joined the line by its transaction.
    async fn has_joined(&self, joined: Joined) -> Result<Verdict> {
        let Joined { lease, created, line, count, is_dated } = joined;
        self.record_claim(&self.record, lease, created, false);
        let ahead = ahead_of(&line, created);
        let belongs_here = match self.check(ahead) {
            Ok(()) => self.check_length(count).await,
            refused => refused,
        };
        if let Err(error) = belongs_here {
            self.leave(created, created).await?;
            return Err(error);
        }
        self.store.ends_overdue(ahead).await;
        // The count includes the claim itself.
        let short_queue = usize::try_from(count).is_ok_and(|count| count <= SHORT_QUEUE + 1);
        let status = ClaimStatus::of(&self.own(lease, created), ahead, short_queue);
        if matches!(status, ClaimStatus::Admitted(_)) && self.session.leases.bears_holders(lease) {
            return Ok(self.granted(&self.record, lease, created, is_dated));
        }
        let number_ahead = match self.store.0.lines.layout {
            Layout::Concurrency => length(ahead),
            // Only the last claims were read, and every key of a native line is a claim.
            Layout::Native => length(ahead).max(count.saturating_sub(1)),
        };
        let verdict = self.judge(&self.record, status, created, number_ahead).await;
        if verdict.as_ref().is_err_and(|error| error.kind() == ErrorKind::SessionLost) {
            // The claim is on a wait lease, and the hold lease has ended: it must not stay in the
            // line of a lost session.
            self.leave(created, created).await?;
        }
        verdict.map_err(Error::with_unknown_effect)
    }

    /// The key of the claim was there before its transaction: an earlier request has put it.
    async fn was_there(&self, Earlier { mut own, is_reported }: Earlier) -> Result<Verdict> {
        if own.id != Some(self.claim.key.id) {
            self.session.claims.retires_slot(self.claim.key.id);
            return Err(Error::new(
                ErrorKind::Unavailable,
                "what an earlier claim has left is in its place",
            )
            .with_remedy("again in a moment"));
        }
        if !self.session.may_have_made(own.created) {
            // A session with the same id has left the claim, and it belongs to no client.
            return Ok(Verdict::Gone);
        }
        let record = self.takes_over(&mut own, is_reported).await?;
        self.record_claim(&record, own.lease, own.created, false);
        // The claim is in line, so every error from here on has an unknown effect.
        let line =
            self.read(self.store.range(all(&self.line)).await.map_err(Error::with_unknown_effect)?);
        if !line.iter().any(|contender| contender.key == own.key) {
            return Ok(Verdict::Gone);
        }
        let ahead = ahead_of(&line, own.created);
        let status = ClaimStatus::of(&own, ahead, true);
        // The earlier request may have been refused, and the deletion of its key may not have
        // arrived. What this request asks for does not count: it may differ.
        if let Err(error) = check(&record, ahead) {
            // Another client may know that the claim holds.
            if !(self.session.is_shared() && matches!(status, ClaimStatus::Admitted(_))) {
                self.leave(own.created, own.changed).await?;
            }
            return Err(error);
        }
        self.store.ends_overdue(ahead).await;
        self.judge(&record, status, own.changed, length(ahead))
            .await
            .map_err(Error::with_unknown_effect)
    }

    /// The verdict about a claim in line with this record, which `changed` was the last revision to
    /// change.
    async fn judge(
        &self,
        record: &Arc<Record>,
        status: ClaimStatus,
        changed: i64,
        ahead: u32,
    ) -> Result<Verdict> {
        match status {
            ClaimStatus::Absent | ClaimStatus::Broken(_) => Ok(Verdict::Gone),
            ClaimStatus::Admitted(found) => self.admitted(record, *found).await,
            ClaimStatus::Blocked { created, lease, neighbours } => {
                self.waits(record, (created, changed), lease, ahead, neighbours).await
            }
        }
    }

    /// Nothing blocks the claim: it moves to the lease of a holder.
    async fn admitted(&self, record: &Arc<Record>, found: Found) -> Result<Verdict> {
        let created = found.created;
        if found.is_timed() {
            let on = self.store.is_on_the_last(&self.session, &self.claim.key, &found).await?;
            return Ok(self.granted(record, on.ok_or_else(fault::always_changes)?, created, false));
        }
        match self.store.hold(&self.session, &self.key, created, found.lease).await? {
            Some(lease) => Ok(self.granted(record, lease, created, false)),
            // Another client of the session may have put it on the timer of a minimum hold.
            None if self.session.is_shared() => Err(fault::always_changes()),
            // The key has changed meanwhile. Other clients change it only to end the claim.
            None => Ok(Verdict::Gone),
        }
    }

    /// The claim waits, on the lease of a waiter.
    async fn waits(
        &self,
        record: &Arc<Record>,
        revisions: (i64, i64),
        lease: i64,
        ahead: u32,
        neighbours: Neighbours,
    ) -> Result<Verdict> {
        if !self.wait_on_a_short_lease(record, revisions, lease).await? {
            return Ok(Verdict::Gone);
        }
        self.session.claims.waits_for(self.claim.key.id, neighbours);
        Ok(Verdict::Queued { ahead, seen: Revision::default(), look_again: jittered(LOOK_AGAIN) })
    }

    /// A waiting claim does not stay on a hold lease: it moves to a wait lease. If it is on a wait
    /// lease already, that lease is renewed unless it was renewed a moment ago, because the waiter
    /// counts a whole `wait_ttl` from the moment at which it sent this request. `false` if the
    /// claim is on no lease of its session.
    async fn wait_on_a_short_lease(
        &self,
        record: &Arc<Record>,
        (created, changed_at): (i64, i64),
        lease: i64,
    ) -> Result<bool> {
        if !self.store.is_lease_of(&self.session, lease).await? {
            return Ok(false);
        }
        match self.session.leases.purpose(lease) {
            None => return Ok(false),
            Some(_) if self.session.leases.have_one_ttl() => return Ok(true),
            Some(Purpose::Wait) => return self.store.freshen(&self.session, lease).await,
            Some(Purpose::Hold) => {}
        }
        loop {
            let wait = self.store.lease(&self.session, Purpose::Wait).await?;
            // A renewal may have found meanwhile that the claim is admitted, and has changed the
            // key then.
            let when = vec![changed(&self.key, changed_at), leased(&self.key, lease)];
            let mut waiting = Record::clone(record);
            waiting.held_ms = None;
            let moving = vec![put(&self.key, waiting.written(), wait)];
            match self.txn(transaction(when, moving, Vec::new())).await {
                // The wait lease has ended; another request may have found that first. The next
                // lease is tried.
                Err(error) if error.kind() == ErrorKind::SessionLost => {
                    self.session.leases.ended(wait)
                }
                moved => {
                    if moved?.succeeded {
                        self.record_claim(record, wait, created, false);
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// The claim holds; `is_dated` if its record says since when.
    fn granted(&self, record: &Arc<Record>, lease: i64, created: i64, is_dated: bool) -> Verdict {
        self.record_claim(record, lease, created, true);
        if is_dated {
            self.session.claims.is_dated(self.claim.key.id);
        }
        Verdict::Granted { token: created.unsigned_abs(), ttl: self.session.keeps(record.ttl()) }
    }

    /// Notes in the session where the claim is.
    fn record_claim(&self, record: &Arc<Record>, lease: i64, created: i64, held: bool) {
        let state = ClaimState {
            held,
            granted: held.then(|| self.store.0.clock.now()),
            ..ClaimState::new(lease, created, Arc::clone(record))
        };
        self.session.claims.insert(self.claim.key.id, state);
    }
}

fn length(line: &[Contender]) -> u32 {
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

fn busy(line: &[Contender], revision: i64) -> Verdict {
    let holder = line.first().map(|holder| holder.meta().owner);
    Verdict::Busy { holder, retry_after: None, seen: mark(line, revision) }
}
