//! What a claim is told, once it is known how it stands.

use std::time::Duration;

use super::super::amend::always_changes;
use super::super::layout::transaction::{all, changed, delete_made, leased, put, transaction};
use super::super::layout::{Contender, Layout, admissions, ahead_of};
use super::super::predecessors::SHORT_QUEUE;
use super::super::sessions::Purpose;
use super::super::status::{ClaimStatus, status_of};
use super::{Answer, Claiming, busy, length};
use crate::random::jittered;
use crate::store::admit::same_kind;
use crate::store::{Revision, Verdict, refusal};
use crate::{Error, ErrorKind, Result};

/// When to claim again if nothing is heard, for which etcd reads the whole line. Who waits looks for itself more often.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

impl Claiming {
    /// What is to be told of it.
    pub(super) async fn answered(&self, answer: Answer) -> Result<Verdict> {
        match answer {
            Answer::Retired => Ok(Verdict::Gone),
            Answer::Outside { line, revision } => Ok(busy(&line, revision)),
            Answer::Held { lease, created, is_dated } => Ok(self.granted(lease, created, is_dated)),
            Answer::Joined { lease, created, line, count, is_dated } => {
                self.record_claim(lease, created, false);
                let ahead = ahead_of(&line, created);
                if let Err(error) = self.check(ahead).and(self.check_length(count).await) {
                    self.leave(created).await?;
                    return Err(error);
                }
                self.store.ends_overdue(ahead).await;
                let own = self.own(lease, created);
                // It is among them itself.
                let short_queue = usize::try_from(count).is_ok_and(|count| count <= SHORT_QUEUE + 1);
                match status_of(&own, ahead, short_queue) {
                    ClaimStatus::First(_) if self.session.purpose(lease) == Some(Purpose::Hold) => {
                        Ok(self.granted(lease, created, is_dated))
                    }
                    found_status => {
                        // Where only the last were read there is nothing in the line but contenders.
                        let all = self.store.0.lines.layout == Layout::Concurrency;
                        let ahead = if all { length(ahead) } else { length(ahead).max(count.saturating_sub(1)) };
                        let verdict = self.judge(found_status, created, ahead).await;
                        if verdict.as_ref().is_err_and(|error| error.kind() == ErrorKind::SessionLost) {
                            // It is on the lease for those who wait, and the one for those who hold has ended.
                            self.leave(created).await?;
                        }
                        verdict.map_err(Error::with_unknown_effect)
                    }
                }
            }
            Answer::Known(own) => self.found(Contender::read(own)).await,
        }
    }

    async fn found(&self, own: Contender) -> Result<Verdict> {
        if own.id != Some(self.claim.key.id) {
            self.session.retires_slot(self.claim.key.id);
            return Err(Error::new(ErrorKind::Unavailable, "what an earlier claim has left is in its place")
                .with_remedy("again in a moment"));
        }
        self.record_claim(own.lease, own.created, false);
        // Whatever fails from here on, it is there.
        let line = self.read(self.store.range(all(&self.line)).await.map_err(Error::with_unknown_effect)?);
        if !line.iter().any(|contender| contender.key == own.key) {
            return Ok(Verdict::Gone);
        }
        let ahead = ahead_of(&line, own.created);
        // It may have been refused, and that it leaves has not arrived.
        if let Err(error) = self.check(ahead).and_then(|()| self.check_max_waiters(&line)) {
            self.leave(own.created).await?;
            return Err(error);
        }
        self.store.ends_overdue(ahead).await;
        self.judge(status_of(&own, ahead, true), own.changed, length(ahead)).await.map_err(Error::with_unknown_effect)
    }

    async fn judge(&self, found_status: ClaimStatus, changed: i64, ahead: u32) -> Result<Verdict> {
        match found_status {
            ClaimStatus::Absent | ClaimStatus::Broken(_) => Ok(Verdict::Gone),
            ClaimStatus::First(found) if found.is_timed() => {
                let on = self.store.is_on_the_last(&self.session, &self.claim.key, &found).await?;
                let on = on.ok_or_else(always_changes)?;
                Ok(self.granted(on, found.created, false))
            }
            ClaimStatus::First(found) => {
                let created = found.created;
                match self.store.hold(&self.session, &self.key, created, found.lease).await? {
                    Some(lease) => Ok(self.granted(lease, created, false)),
                    // It was changed meanwhile, which nobody else does to a claim of ours without ending it.
                    None => Ok(Verdict::Gone),
                }
            }
            ClaimStatus::Behind { created, lease, blocked_by, .. } => {
                if !self.wait_on_a_short_lease(created, changed, lease).await? {
                    return Ok(Verdict::Gone);
                }
                self.session.waits_for(self.claim.key.id, blocked_by);
                Ok(Verdict::Queued { ahead, seen: Revision::default(), look_again: jittered(LOOK_AGAIN) })
            }
        }
    }

    /// One that was put on a lease for those who hold does not stay there. Where it is on the other already, that one is
    /// fresh then: whoever hears that it waits believes in a waiter's whole life from the sending of the question on.
    /// `false` when it stands on none that is there.
    async fn wait_on_a_short_lease(&self, revision: i64, changed_at: i64, lease: i64) -> Result<bool> {
        match self.session.purpose(lease) {
            None => return Ok(false),
            Some(_) if self.session.has_one_ttl() => return Ok(true),
            Some(Purpose::Wait) => return self.store.freshen(&self.session, lease).await,
            Some(Purpose::Hold) => {}
        }
        loop {
            let wait = self.store.lease(&self.session, Purpose::Wait).await?;
            // A renewal may have found meanwhile that it holds, and has changed it then.
            let when = vec![changed(&self.key, changed_at), leased(&self.key, lease)];
            let moved =
                self.ask(transaction(when, vec![put(&self.key, self.record.written(), wait)], Vec::new())).await;
            match moved {
                // The lease for those who wait has ended; another request may have found that first. The next lease is tried.
                Err(error) if error.kind() == ErrorKind::SessionLost => self.session.ended(wait),
                moved => {
                    if moved?.succeeded {
                        self.record_claim(wait, revision, false);
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// Refuses what does not belong into this line.
    pub(super) fn check(&self, ahead: &[Contender]) -> Result<()> {
        for other in ahead {
            if !same_kind(other.capacity(), self.claim.capacity) {
                return Err(refusal::other_kind(self.claim.capacity));
            }
            let epoch = other.meta().epoch;
            if epoch > self.claim.meta.epoch {
                return Err(refusal::epoch(epoch, self.claim.meta.epoch));
            }
        }
        Ok(())
    }

    /// Refuses a line that is full. Only where it may be is it looked who of those ahead holds.
    async fn check_length(&self, count: u32) -> Result<()> {
        let most = self.claim.max_waiters;
        // Somebody of them holds.
        if count.saturating_sub(1) <= most {
            return Ok(());
        }
        self.check_max_waiters(&self.read(self.store.range(all(&self.line)).await?))
    }

    fn check_max_waiters(&self, line: &[Contender]) -> Result<()> {
        let most = self.claim.max_waiters;
        let own = line.iter().position(|contender| contender.key == self.key).unwrap_or(line.len());
        let held = admissions(line).take_while(|(_, admitted)| *admitted).count();
        match own >= held && u32::try_from(own - held).unwrap_or(u32::MAX) >= most {
            true => Err(refusal::queue_full(most)),
            false => Ok(()),
        }
    }

    /// Takes it out of the line again.
    pub(super) async fn leave(&self, created: i64) -> Result<()> {
        let deleting = transaction(Vec::new(), vec![delete_made(&self.key, created)], Vec::new());
        self.ask(deleting).await.map_err(Error::with_unknown_effect).map(drop)
    }
}
