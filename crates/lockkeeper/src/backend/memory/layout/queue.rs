//! One line: its claims, and the rule of admission.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::admit::{Admission, Demand, same_kind};
use crate::store::{
    Asked, Broken, Claim, ClaimId, ClaimKey, Entry, Meta, Revision, Verdict, refusal,
};
use crate::time::Instant;
use crate::{Result, random};

/// One line. The order of the map is the order of the line, and its keys are the tokens.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) entries: BTreeMap<u64, QueueEntry>,
    pub(super) by_id: HashMap<ClaimId, u64>,
    pub(super) last_token: u64,
    pub(super) revision: u64,
    pub(super) changed: Arc<Notify>,
}

/// One claim in a line.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) key: ClaimKey,
    pub(super) weight: u32,
    pub(super) capacity: u32,
    pub(super) ttl: Duration,
    pub(super) wait_ttl: Duration,
    pub(super) lock_delay: Duration,
    pub(super) meta: Meta,
    /// The number of the claim's last change.
    pub(super) changed: u64,
    pub(super) granted: bool,
    /// When the minimum hold of the claim is over.
    pub(super) keep_until: Instant,
    /// Whether only the minimum hold keeps the claim.
    pub(super) kept: bool,
    pub(super) since: Instant,
    pub(super) expires: Instant,
    pub(super) broken: Option<Broken>,
    pub(super) asked: Option<Asked>,
    pub(super) notify: Arc<Notify>,
}

impl Queue {
    /// Removes the dead claims from the front, and grants the claims that have become admissible;
    /// called after every change and before every look. It stops at the first claim that has to
    /// wait, so it costs O(holders).
    pub(super) fn settle(&mut self, now: Instant) {
        let mut rule = Admission::new();
        let (mut dead, mut ended) = (Vec::new(), Vec::new());
        let mut granted = false;
        for (token, entry) in &mut self.entries {
            if !entry.is_live(now) && !entry.kept {
                ended.push(*token);
            }
            if !entry.is_counted(now) {
                dead.push(*token);
            } else if !rule.admit(entry.demand()) {
                break;
            } else if !entry.granted {
                entry.grant(now);
                granted = true;
            }
        }
        for token in &ended {
            self.end(*token, now);
        }
        for token in &dead {
            self.forget(*token);
        }
        if granted || !ended.is_empty() || !dead.is_empty() {
            self.touch();
        }
    }

    /// Refuses a claim of another kind or of an older epoch. All live claims have one kind, since
    /// each passed this check; epochs may rise along the line.
    pub(super) fn check(&self, claim: &Claim, now: Instant) -> Result<()> {
        let live = || self.entries.values().filter(|p| p.is_counted(now));
        if live().next().is_some_and(|p| !same_kind(p.capacity, claim.capacity)) {
            return Err(refusal::other_kind(claim.capacity));
        }
        match live().next_back().map(|p| p.meta.epoch) {
            Some(epoch) if epoch > claim.meta.epoch => Err(refusal::epoch(epoch, claim.meta.epoch)),
            _ => Ok(()),
        }
    }

    pub(super) fn join(&mut self, claim: &Claim, now: Instant) -> Result<Verdict> {
        let mut rule = Admission::new();
        let open = self.entries.values().all(|p| rule.admit(p.demand()));
        let demand = Demand { weight: claim.weight, capacity: claim.capacity, granted: false };
        let granted = open && rule.admit(demand);
        if !granted && !claim.queue {
            return Ok(self.busy(now));
        }
        if !granted {
            self.make_room(claim.max_waiters, now)?;
        }
        let token = self.append(claim, granted, now);
        Ok(self.verdict(token, now))
    }

    pub(super) fn replace(&mut self, claim: &Claim, old: ClaimId, now: Instant) -> Verdict {
        let old_token = self.by_id.get(&old).copied();
        let others = self.entries.iter().any(|(t, p)| p.is_counted(now) && Some(*t) != old_token);
        let broken =
            old_token.is_some_and(|t| self.entries.get(&t).is_none_or(|p| p.broken.is_some()));
        match old_token {
            Some(old_token) if !others && !broken => {
                let keep_until = self.entries.get(&old_token).map_or(now, |old| old.keep_until);
                self.forget(old_token);
                let token = self.append(claim, true, now);
                self.keep_until(token, keep_until);
                self.verdict(token, now)
            }
            _ => self.busy(now),
        }
    }

    pub(super) fn make_room(&mut self, max_waiters: u32, now: Instant) -> Result<()> {
        if self.waiting() < max_waiters as usize {
            return Ok(());
        }
        let dead: Vec<u64> =
            self.entries.iter().filter(|(_, p)| !p.is_counted(now)).map(|(t, _)| *t).collect();
        for token in dead {
            self.forget(token);
        }
        if self.waiting() < max_waiters as usize {
            return Ok(());
        }
        Err(refusal::queue_full(max_waiters))
    }

    pub(super) fn waiting(&self) -> usize {
        self.entries.len() - self.entries.values().take_while(|p| p.granted).count()
    }

    pub(super) fn append(&mut self, claim: &Claim, granted: bool, now: Instant) -> u64 {
        self.last_token += 1;
        let lease = if granted { claim.ttl + claim.lock_delay } else { claim.wait_ttl };
        let entry = QueueEntry {
            key: claim.key.clone(),
            weight: claim.weight,
            capacity: claim.capacity,
            ttl: claim.ttl,
            wait_ttl: claim.wait_ttl,
            lock_delay: claim.lock_delay,
            meta: claim.meta.clone(),
            changed: 0,
            granted,
            keep_until: now,
            kept: false,
            since: now,
            expires: now + lease,
            broken: None,
            asked: None,
            notify: Arc::default(),
        };
        self.entries.insert(self.last_token, entry);
        self.by_id.insert(claim.key.id, self.last_token);
        self.touch();
        self.last_token
    }

    /// Starts the life of a claim again, for the claim's own request.
    pub(super) fn live(&mut self, token: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&token).filter(|p| p.broken.is_none()) {
            entry.expires =
                now + if entry.granted { entry.ttl + entry.lock_delay } else { entry.wait_ttl };
        }
    }

    pub(super) fn verdict(&self, token: u64, now: Instant) -> Verdict {
        match self.entries.get(&token) {
            Some(entry) if entry.granted => Verdict::Granted { token, ttl: entry.ttl },
            Some(_) => Verdict::Queued {
                ahead: u32::try_from(
                    self.entries.range(..token).filter(|(_, p)| p.is_counted(now)).count(),
                )
                .unwrap_or(u32::MAX),
                seen: Revision(self.revision),
                look_again: self.look_again(token, now),
            },
            None => Verdict::Gone,
        }
    }

    /// When a waiter looks again. The first waiter looks when the next holder would die; the other
    /// waiters leave that to the first.
    pub(super) fn look_again(&self, token: u64, now: Instant) -> Duration {
        let first_waiting = self.entries.iter().find(|(_, p)| !p.granted).map(|(t, _)| *t);
        if first_waiting == Some(token) {
            let holders = self.entries.range(..token).map(|(_, p)| p.until()).min();
            holders.map_or(Duration::ZERO, |at| at.saturating_since(now) + Duration::from_millis(1))
        } else {
            random::jittered(Duration::from_secs(10)).max(Duration::from_secs(5))
        }
    }

    pub(super) fn busy(&self, now: Instant) -> Verdict {
        let mut holders = self.entries.values().filter(|p| p.granted);
        let first = holders.next();
        Verdict::Busy {
            holder: first.map(|p| Arc::clone(&p.meta.owner)),
            retry_after: first
                .into_iter()
                .chain(holders)
                .map(|p| p.until().saturating_since(now))
                .min(),
            seen: Revision(self.revision),
        }
    }

    /// The place of a live claim. A claim that died behind a waiter, where `settle` does not remove
    /// it, is removed now: no request of its owner may revive it.
    pub(super) fn find(&mut self, id: ClaimId, now: Instant) -> Option<u64> {
        let token = *self.by_id.get(&id)?;
        if self.entries.get(&token).is_some_and(|entry| entry.is_live(now)) {
            return Some(token);
        }
        self.leave(token, now);
        None
    }

    /// Ends a claim. Its share of the capacity stays taken while its minimum hold lasts.
    pub(super) fn leave(&mut self, token: u64, now: Instant) {
        self.end(token, now);
        self.touch();
    }

    fn end(&mut self, token: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token).filter(|p| p.granted && p.keep_until > now)
        else {
            return self.forget(token);
        };
        (entry.kept, entry.asked) = (true, None);
        entry.notify.notify_waiters();
        self.by_id.remove(&entry.key.id);
        // The first waiter has planned its look for the end of the lease, and the minimum hold may
        // be over earlier.
        if let Some(first) = self.entries.values().find(|entry| !entry.granted) {
            first.notify.notify_waiters();
        }
    }

    /// Raises the end of a minimum hold.
    pub(super) fn keep_until(&mut self, token: u64, at: Instant) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.keep_until = entry.keep_until.max(at);
        }
    }

    /// The answer to a claim that is in the line already.
    pub(super) fn again(&mut self, token: u64, now: Instant) -> Verdict {
        match self.entries.get(&token) {
            // A broken claim must not live longer, so no answer may say that it holds.
            Some(entry) if entry.broken.is_some() => Verdict::Gone,
            _ => {
                self.live(token, now);
                self.verdict(token, now)
            }
        }
    }

    pub(super) fn remove(&mut self, token: u64) {
        self.forget(token);
        self.touch();
    }

    pub(super) fn forget(&mut self, token: u64) {
        if let Some(entry) = self.entries.remove(&token) {
            self.by_id.remove(&entry.key.id);
            entry.notify.notify_waiters();
        }
    }

    pub(super) fn touch(&mut self) {
        self.revision += 1;
        self.changed.notify_waiters();
    }
}

impl QueueEntry {
    /// Whether the claim has a live client.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        !self.kept && self.expires > now
    }

    /// Whether the claim counts for the other claims.
    pub(super) fn is_counted(&self, now: Instant) -> bool {
        self.until() > now
    }

    /// When the claim ends without a renewal or a withdrawal.
    pub(super) fn until(&self) -> Instant {
        match (self.granted, self.kept) {
            (true, true) => self.keep_until,
            (true, false) => self.expires.max(self.keep_until),
            (false, _) => self.expires,
        }
    }

    pub(super) fn demand(&self) -> Demand {
        Demand { weight: self.weight, capacity: self.capacity, granted: self.granted }
    }

    /// Grants the claim by a push: the claim keeps the rest of its life.
    pub(super) fn grant(&mut self, now: Instant) {
        self.granted = true;
        self.since = now;
        self.notify.notify_waiters();
    }

    pub(super) fn entry(&self, token: u64, now: Instant) -> Entry {
        Entry {
            id: self.key.id.hash(),
            weight: self.weight,
            capacity: self.capacity,
            granted: self.granted,
            kept: self.kept,
            token: Some(token),
            meta: self.meta.clone(),
            age: Some(now.saturating_since(self.since)),
            expires_in: Some(
                if self.kept { self.keep_until } else { self.expires }.saturating_since(now),
            ),
            broken: self.broken.clone(),
        }
    }
}
