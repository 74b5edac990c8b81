//! Claims that are not just put in line: tries, claims that are sent again, and those that take another's place.

use std::sync::Arc;

use bytes::Bytes;

use super::super::EtcdStore;
use super::super::layout::transaction::{
    absent, all, created, delete, empty_but_for, get, leased, nobody_since, only, present, put, range, transaction,
};
use super::super::layout::{Contender, admissions, ahead_of};
use super::super::sessions::{KeySlot, Purpose, Session};
use super::super::status::{ClaimStatus, status_of};
use super::super::wire::messages::RangeRequest;
use super::{Answer, Claiming, deletions, garbled, held, known_or_retired};
use crate::store::admit::same_kind;
use crate::store::{ClaimKey, TOMBSTONE_MIN, refusal};
use crate::{ErrorKind, Result};

/// How often a try looks again because somebody else has joined meanwhile. Then it stands in line, and looks who is before it.
const TRIES: u32 = 32;

impl Claiming {
    /// Takes the lock if that is possible now.
    pub(super) async fn attempt(&self, lease: i64) -> Result<Answer> {
        let leaving = self.store.0.order.piggyback_deletes(&self.claim.key.name, &self.key);
        let mut when = self.is_new();
        when.extend(empty_but_for(&self.line, &leaving));
        let mut then = deletions(&leaving);
        then.push(self.put(lease, true));
        for _ in 0..TRIES {
            let mut otherwise = self.known();
            otherwise.push(range(all(&self.line)));
            let answer = self.ask(transaction(when.clone(), then.clone(), otherwise)).await;
            self.let_the_next();
            let answer = answer?;
            if answer.succeeded {
                return Ok(held(lease, &answer));
            }
            let (line, revision) = match self.outside(answer) {
                Answer::Outside { line, revision } => (line, revision),
                known => return Ok(known),
            };
            let stay = staying(&line, &leaving);
            self.check(&stay)?;
            if !self.would_be_admitted(&stay) {
                if self.store.ends_overdue(&stay).await {
                    continue;
                }
                return Ok(Answer::Outside { line, revision });
            }
            // If nobody has joined since, it is as it was; and whoever left is in nobody's way.
            when = self.is_new();
            when.push(nobody_since(&self.line, revision));
            then = deletions(&leaving);
            then.push(self.put(lease, true));
        }
        self.join_and_see(lease).await
    }

    /// Puts a try in line, and takes it out again if it does not hold there.
    async fn join_and_see(&self, lease: i64) -> Result<Answer> {
        let (created, line) = match self.join_on(lease).await? {
            Answer::Joined { created, line, .. } => (created, line),
            known => return Ok(known),
        };
        let ahead = ahead_of(&line, created);
        if self.check(ahead).is_ok()
            && let ClaimStatus::First(_) = status_of(&self.own(lease, created), ahead, true)
        {
            return Ok(Answer::Held { lease, created, is_dated: false });
        }
        self.leave(created).await?;
        self.check(ahead)?;
        Ok(Answer::Outside { line: ahead.to_vec(), revision: created })
    }

    /// Asks after a claim that may have arrived; if it has not, it never will.
    pub(super) async fn resend(&self) -> Result<Answer> {
        self.let_the_next();
        // It is there, most of the time; and to look costs etcd less than to write.
        let own = RangeRequest { key: self.key.clone(), ..RangeRequest::default() };
        if let Some(own) = only(Some(self.store.range(own).await?)) {
            return Ok(Answer::Known(own));
        }
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let lasts = self.claim.ttl.max(TOMBSTONE_MIN);
        self.session.said_gone(self.gone.clone(), self.store.0.clock.now() + lasts);
        let tombstone = put(&self.gone, Bytes::new(), lease);
        let answer = self.ask(transaction(vec![absent(&self.key)], vec![tombstone], vec![get(&self.key)])).await?;
        if answer.succeeded {
            return Ok(Answer::Retired);
        }
        Ok(known_or_retired(answer.responses))
    }

    /// Takes the place of the caller's own claim, if that is the only one.
    pub(super) async fn replace(&self) -> Result<Answer> {
        let Some(old) = self.claim.replaces else { return Err(garbled()) };
        // A fixed lease has a session of its own.
        let session = self.store.0.sessions.of(old).unwrap_or_else(|| Arc::clone(&self.session));
        let mut key = self.claim.key.clone();
        key.id = old;
        let state = session.claim_state(old);
        let KeySlot { at: old, created: made, .. } = session.slot_of(&self.store.0.lines, &key);
        let made = state.as_ref().map_or(made, |state| state.created);
        if let Some(state) = &state
            && !same_kind(state.record.capacity, self.claim.capacity)
        {
            return Err(refusal::other_kind(self.claim.capacity));
        }
        let mut on = state.map(|state| state.lease);
        let mut lease = match &self.timer {
            Some(timer) => self.store.last_to_end(&self.session, 0, timer).await?,
            None => self.store.lease(&self.session, Purpose::Hold).await?,
        };
        let mut leaving = self.store.0.order.piggyback_deletes(&self.claim.key.name, &self.key);
        leaving.retain(|(key, _)| *key != old);
        loop {
            let mut when = self.is_new();
            when.push(match made {
                0 => present(&old),
                made => created(&old, made),
            });
            // One that was broken is on another.
            when.extend(on.map(|on| leased(&old, on)));
            let no_later = if made == 0 { i64::MAX - 1 } else { made };
            let but: Vec<_> = leaving.iter().cloned().chain([(old.clone(), no_later)]).collect();
            when.extend(empty_but_for(&self.line, &but));
            let mut then = deletions(&leaving);
            then.extend([delete(&old), self.put(lease, true)]);
            let mut otherwise = self.known();
            otherwise.push(range(all(&self.line)));
            let answer = self.ask(transaction(when, then, otherwise)).await;
            self.let_the_next();
            let answer = match answer {
                // The timer is over, and nothing was done.
                Err(error) if error.kind() == ErrorKind::SessionLost && self.is_timer(lease) => {
                    lease = self.store.lease(&self.session, Purpose::Hold).await?;
                    continue;
                }
                answer => answer?,
            };
            if answer.succeeded {
                return Ok(held(lease, &answer));
            }
            let (line, revision) = match self.outside(answer) {
                Answer::Outside { line, revision } => (line, revision),
                known => return Ok(known),
            };
            let stay = staying(&line, &leaving);
            self.check(&stay)?;
            match &*stay {
                // It has been moved to the lease of those who hold meanwhile.
                [alone] if alone.key == old && on.is_some_and(|on| on != alone.lease) && !alone.is_broken() => {
                    on = Some(alone.lease);
                }
                _ => return Ok(Answer::Outside { line, revision }),
            }
        }
    }

    fn is_timer(&self, lease: i64) -> bool {
        self.timer.is_some_and(|timer| timer.keep.lease == lease)
    }

    fn would_be_admitted(&self, line: &[Contender]) -> bool {
        let mut line = line.to_vec();
        line.push(self.own(0, i64::MAX));
        admissions(&line).all(|(_, admitted)| admitted)
    }
}

/// What leaves is not in anybody's way; but who sits there after it is.
fn staying(line: &[Contender], leaving: &[(Bytes, i64)]) -> Vec<Contender> {
    let leaves = |other: &Contender| leaving.iter().any(|(key, made)| (key, *made) == (&other.key, other.created));
    line.iter().filter(|other| !leaves(other)).cloned().collect()
}

impl EtcdStore {
    /// This claim holds: nothing of the one whose place it has taken is there any more.
    pub(in super::super) fn has_replaced(&self, session: &Session, key: &ClaimKey) {
        let Some(old) = session.has_replaced(key.id) else { return };
        let Some(of_old) = self.0.sessions.of(old) else { return };
        of_old.left(old);
        of_old.releases_slot(&ClaimKey { id: old, ..key.clone() }, self.0.clock.now());
    }
}
