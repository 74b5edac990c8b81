//! Claims: how they join a line, and how they are changed.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::params;

use super::layout::claim_row::{ClaimRow, State};
use super::layout::line::Front;
use super::layout::times::{Micros, span, until};
use super::layout::{Txn, read};
use crate::fault::Outcome;
use crate::store::admit::{Demand, same_kind};
use crate::store::{Amend, Amended, Claim, ClaimId, ClaimKey, TOMBSTONE_MIN, Verdict, refusal};
use crate::{LockName, random};

impl Txn<'_> {
    pub(crate) fn claim(&mut self, claim: &Claim) -> Outcome<Verdict> {
        let key = &claim.key;
        let ttl = until(self.revive(&key.session)?, 0);
        if self.is_gone(key.id)? {
            return Ok(Verdict::Gone);
        }
        let known = self.find(key)?;
        if let Some(row) = known.as_ref().filter(|p| !p.granted()) {
            self.remove_dead_before(row)?;
        }
        let front = self.settle(&key.name)?;
        // Looked up again, since that may have granted or removed the claim.
        let known = if known.is_some() { self.find(key)? } else { None };
        if let Some(row) = known {
            return self.verdict_of(&row, &front);
        }
        if claim.resend {
            self.tombstone(key, claim.ttl.max(TOMBSTONE_MIN))?;
            return Ok(Verdict::Gone);
        }
        self.check(claim, &front)?;
        match claim.replaces {
            Some(old) => self.replace(claim, old, ttl, &front),
            None => self.join(claim, ttl, front),
        }
    }

    pub(crate) fn amend(
        &mut self,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Outcome<Amended> {
        self.settle(&key.name)?;
        let Some(row) = self.find(key)?.filter(|p| p.expires() > self.now) else {
            return Ok(Amended::NotLive);
        };
        let (name, ord) = (key.name.as_str().as_bytes(), row.ord);
        match change {
            Amend::Lower(_) | Amend::MinHold(_) if !row.granted() => return Ok(Amended::NotLive),
            // A break has ended the claim's minimum hold, and a later change does not bring it
            // back.
            Amend::MinHold(_) if row.broken.is_some() => return Ok(Amended::NotLive),
            _ => {}
        }
        if let Some(amended) = Amended::of_number(number, row.changed) {
            return Ok(amended);
        }
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.change(
            "UPDATE lk_claim SET change = ?3 WHERE name = ?1 AND ord = ?2",
            params![name, ord, number],
        )?;
        match change {
            Amend::Lower(weight) => self.change(
                "UPDATE lk_claim SET weight = min(weight, ?3) WHERE name = ?1 AND ord = ?2",
                params![name, ord, weight],
            )?,
            Amend::MinHold(min_hold) => {
                self.needs_disk |= row.detached;
                self.change(
                    "UPDATE lk_claim SET keep_until_us = max(keep_until_us, ?3) WHERE name = ?1 AND ord = ?2",
                    params![name, ord, self.now.saturating_add(span(*min_hold))],
                )?
            }
            Amend::Value(value) => {
                self.change("UPDATE lk_claim SET value = ?3 WHERE name = ?1 AND ord = ?2", params![name, ord, value])?
            }
            Amend::Meta(meta) => self.change(
                "UPDATE lk_claim SET owner = ?3, reason = ?4, value = ?5, epoch = ?6 WHERE name = ?1 AND ord = ?2",
                params![name, ord, meta.owner, meta.reason, meta.value, meta.epoch],
            )?,
        };
        self.touch(&key.name)?;
        self.settle(&key.name)?;
        Ok(Amended::Done)
    }

    /// The state of a claim that is in the line already. The request counts as a renewal that lists
    /// the claim. A broken claim must not be extended, and this answer would start its lease again:
    /// so its id is retired.
    fn verdict_of(&mut self, row: &ClaimRow, front: &Front) -> Outcome<Verdict> {
        if row.broken.is_some() {
            return Ok(Verdict::Gone);
        }
        if row.unlisted.is_some() {
            self.note_unlisted(row, None)?;
        }
        if row.granted() {
            self.hold(row)?;
            return Ok(Verdict::Granted { token: row.token(), ttl: row.ttl() });
        }
        self.queued(&row.name, row.ord, front)
    }

    fn queued(&self, name: &LockName, ord: i64, front: &Front) -> Outcome<Verdict> {
        let waiting = self.waiting(name, ord, u32::MAX)?;
        let first = front.first_waiting.as_ref().is_none_or(|row| row.ord == ord);
        Ok(Verdict::Queued {
            ahead: waiting.saturating_add(u32::try_from(front.holders.len()).unwrap_or(u32::MAX)),
            seen: self.revision(name)?,
            look_again: if first { self.next_end(front) } else { unhurried() },
        })
    }

    /// When the first in line looks: as soon as one of the holders would have died.
    fn next_end(&self, front: &Front) -> Duration {
        let next = front.holders.iter().map(ClaimRow::expires).min();
        next.map_or(Duration::ZERO, |at| until(at, self.now) + Duration::from_millis(1))
    }

    /// All live claims agree on the kind, since each was checked at the door; epochs rise along the
    /// line.
    fn check(&self, claim: &Claim, front: &Front) -> Outcome<()> {
        let Some(first) = front.first() else { return Ok(()) };
        if !same_kind(first.capacity, claim.capacity) {
            return Err(refusal::other_kind(claim.capacity).into());
        }
        let sql = "SELECT epoch FROM lk_claim WHERE name = ?1 ORDER BY ord DESC LIMIT 1";
        let last: Option<u16> =
            self.first(sql, [claim.key.name.as_str().as_bytes()], |row| row.get(0))?;
        match last {
            Some(epoch) if epoch > claim.meta.epoch => {
                Err(refusal::epoch(epoch, claim.meta.epoch).into())
            }
            _ => Ok(()),
        }
    }

    fn join(&mut self, claim: &Claim, ttl: Duration, mut front: Front) -> Outcome<Verdict> {
        let demand = Demand { weight: claim.weight, capacity: claim.capacity, granted: false };
        if front.first_waiting.is_none() && front.rule.admit(demand) {
            let token = self.append(claim, State::Held, 0)?;
            return Ok(Verdict::Granted { token: token.unsigned_abs(), ttl });
        }
        if !claim.queue {
            return self.busy(claim, &front);
        }
        self.make_room(claim)?;
        let ord = self.append(claim, State::Waiting, 0)?;
        self.queued(&claim.key.name, ord, &front)
    }

    fn replace(
        &mut self,
        claim: &Claim,
        old: ClaimId,
        ttl: Duration,
        front: &Front,
    ) -> Outcome<Verdict> {
        // By its id alone: with a fixed lease, the new claim has a session of its own.
        let is_old =
            |first: &&ClaimRow| first.id == old && first.broken.is_none() && !first.is_kept();
        let old = front.first().filter(is_old);
        match old {
            Some(old) if !front.others_than(old.ord) => {
                self.forget(old)?;
                let token = self.append(claim, State::Held, old.keep_until())?;
                Ok(Verdict::Granted { token: token.unsigned_abs(), ttl })
            }
            _ => self.busy(claim, front),
        }
    }

    fn busy(&self, claim: &Claim, front: &Front) -> Outcome<Verdict> {
        Ok(Verdict::Busy {
            holder: front.holders.first().map(|row| Arc::clone(&row.meta.owner)),
            retry_after: front.holders.iter().map(|row| row.left(self.now)).min(),
            seen: self.revision(&claim.key.name)?,
        })
    }

    fn make_room(&mut self, claim: &Claim) -> Outcome<()> {
        let full = |txn: &Self| -> Outcome<bool> {
            Ok(txn.waiting(&claim.key.name, i64::MAX, claim.max_waiters)? >= claim.max_waiters)
        };
        if full(self)? {
            self.sweep(&claim.key.name)?;
            if full(self)? {
                return Err(refusal::queue_full(claim.max_waiters).into());
            }
        }
        Ok(())
    }

    /// Puts a claim at the end of its line, and returns its place there: the next token.
    fn append(&mut self, claim: &Claim, state: State, keep_until: Micros) -> Outcome<i64> {
        self.check_on_disk("a token")?;
        let Claim { key, meta, .. } = claim;
        let name = key.name.as_str().as_bytes();
        let (ord, is_new) = self.next_token(&key.name)?;
        self.change(
            "INSERT INTO lk_claim (name, ord, id, session, weight, capacity, state, delay_us, keep_until_us,
                                   since_us, owner, reason, value, epoch)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                name,
                ord,
                key.id.as_bytes(),
                key.session.as_str(),
                claim.weight,
                claim.capacity,
                state as u8,
                span(claim.lock_delay),
                keep_until,
                self.now,
                meta.owner,
                meta.reason,
                meta.value,
                meta.epoch
            ],
        )?;
        self.notifications.name(&key.name);
        if is_new {
            // Not before: the reaper takes names without claims.
            self.made_a_name()?;
        }
        Ok(ord)
    }

    /// The token after the last one of a name, and whether the name is new. A new name starts above
    /// the floor, at a revision that no earlier row of the name had.
    fn next_token(&self, name: &LockName) -> Outcome<(i64, bool)> {
        if let Some((last, _)) = read::lock(self.db, name)? {
            return Ok((last + 1, false));
        }
        let start = i64::try_from(random::below(1 << 60)).unwrap_or(0) + 1;
        let floor = self.first(
            "INSERT INTO lk_lock (name, fence, revision) VALUES (?1, (SELECT floor FROM lk_meta), ?2) RETURNING fence",
            params![name.as_str().as_bytes(), start],
            |row| row.get::<_, i64>(0),
        )?;
        Ok((floor.ok_or(rusqlite::Error::QueryReturnedNoRows)? + 1, true))
    }

    fn is_gone(&self, id: ClaimId) -> Outcome<bool> {
        let sql = "SELECT 1 FROM lk_gone WHERE id = ?1 AND until_us > ?2";
        Ok(self.first(sql, params![id.as_bytes(), self.now], |_| Ok(()))?.is_some())
    }
}

/// When later waiters look: seldom, since the first waiter does it for them.
fn unhurried() -> Duration {
    random::jittered(Duration::from_secs(10)).max(Duration::from_secs(5))
}
