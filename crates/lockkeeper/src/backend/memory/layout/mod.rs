//! The lines, and every operation on them as a plain function of the state and the time.

mod queue;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use self::queue::{Queue, QueueEntry};
use crate::store::{
    Amend, Amended, Asked, Broken, Claim, ClaimId, ClaimKey, Entry, Evict, Evicted, Line, Live,
    LiveState, Renewal, Revision, SessionId, TOMBSTONE_MIN, Target, Verdict, Wake, Withdrawal,
    refusal,
};
use crate::time::Instant;
use crate::{LockName, Result, random};

/// When the store has more lines than this, it forgets the empty lines.
const IDLE_LINES: usize = 4096;

/// The whole state of the store.
#[derive(Debug, Default)]
pub(in crate::backend::memory) struct Lines {
    lines: HashMap<LockName, Queue>,
    gone: HashMap<ClaimId, Instant>,
    /// The closed sessions, and until when the store remembers them.
    closed: HashMap<SessionId, Instant>,
    /// The operators who removed claims, for as long as the holder may ask.
    removed: HashMap<ClaimId, (Broken, Instant)>,
    /// A new line gives only tokens above this number.
    floor: u64,
}

/// The result of a waiter's look.
pub(in crate::backend::memory) enum Look {
    Wake(Wake),
    Wait(Arc<Notify>),
}

impl Lines {
    pub(in crate::backend::memory) fn claim(
        &mut self,
        claim: &Claim,
        now: Instant,
    ) -> Result<Verdict> {
        let id = claim.key.id;
        self.gone.retain(|_, until| *until > now);
        if self.gone.contains_key(&id) {
            return Ok(Verdict::Gone);
        }
        let line = Self::line_of(&mut self.lines, self.floor, &claim.key.name);
        line.settle(now);
        if let Some(token) = line.find(id, now) {
            return Ok(line.again(token, now));
        }
        if claim.resend {
            self.add_tombstone(id, now + claim.ttl.max(TOMBSTONE_MIN));
            return Ok(Verdict::Gone);
        }
        line.check(claim, now)?;
        match claim.replaces {
            Some(old) => Ok(line.replace(claim, old, now)),
            None => line.join(claim, now),
        }
    }

    /// Adds a tombstone, or extends it: a second withdrawal must not shorten the tombstone of the
    /// first.
    fn add_tombstone(&mut self, id: ClaimId, until: Instant) {
        let kept_until = self.gone.entry(id).or_insert(until);
        *kept_until = until.max(*kept_until);
    }

    pub(in crate::backend::memory) fn renew(&mut self, live: &Live, now: Instant) -> Renewal {
        let absent = match live.state {
            LiveState::InFlight => Renewal::Unknown,
            _ => Renewal::Lost(self.removed.get(&live.key.id).map(|(broken, _)| broken.clone())),
        };
        let Some(line) = self.lines.get_mut(&live.key.name) else { return absent };
        line.settle(now);
        let Some(token) = line.find(live.key.id, now) else { return absent };
        let Some(entry) = line.entries.get(&token) else { return absent };
        if let Some(broken) = &entry.broken {
            return Renewal::Lost(Some(broken.clone()));
        }
        line.live(token, now);
        match line.entries.get(&token) {
            Some(entry) if entry.granted => Renewal::Held { token, ttl: entry.ttl },
            _ => Renewal::Queued,
        }
    }

    /// Refuses a closed session. The store keeps nothing of an open session: each claim lives by
    /// itself.
    pub(in crate::backend::memory) fn open(&mut self, id: &SessionId, now: Instant) -> Result<()> {
        self.closed.retain(|_, until| *until > now);
        if self.closed.contains_key(id) { Err(refusal::session_ended()) } else { Ok(()) }
    }

    pub(in crate::backend::memory) fn close(&mut self, session: &SessionId, now: Instant) {
        self.closed.retain(|_, until| *until > now);
        self.closed.insert(session.clone(), now + TOMBSTONE_MIN);
        for line in self.lines.values_mut() {
            let theirs: Vec<u64> = line
                .entries
                .iter()
                .filter(|(_, p)| !p.kept && p.key.session == *session)
                .map(|(token, _)| *token)
                .collect();
            for token in theirs {
                line.leave(token, now);
            }
            line.settle(now);
        }
    }

    pub(in crate::backend::memory) fn withdraw(
        &mut self,
        key: &ClaimKey,
        tombstone: Option<Duration>,
        now: Instant,
    ) -> Withdrawal {
        if let Some(lease) = tombstone {
            self.add_tombstone(key.id, now + lease);
        }
        let Some(line) = self.lines.get_mut(&key.name) else { return Withdrawal::Absent };
        let found = line.find(key.id, now);
        if let Some(token) = found {
            line.leave(token, now);
        }
        line.settle(now);
        self.forget_idle_lines(now);
        if found.is_some() { Withdrawal::Removed } else { Withdrawal::Absent }
    }

    pub(in crate::backend::memory) fn amend(
        &mut self,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
        now: Instant,
    ) -> Amended {
        let Some(line) = self.lines.get_mut(&key.name) else { return Amended::NotLive };
        line.settle(now);
        let Some(entry) = line.find(key.id, now).and_then(|t| line.entries.get_mut(&t)) else {
            return Amended::NotLive;
        };
        match change {
            Amend::Lower(_) | Amend::MinHold(_) if !entry.granted => return Amended::NotLive,
            // A break has ended the minimum hold of the claim, and a later change does not restore
            // it.
            Amend::MinHold(_) if entry.broken.is_some() => return Amended::NotLive,
            _ => {}
        }
        if let Some(amended) = Amended::of_number(number, entry.changed) {
            return amended;
        }
        entry.changed = number;
        match change {
            Amend::MinHold(min_hold) => entry.keep_until = entry.keep_until.max(now + *min_hold),
            Amend::Lower(weight) => entry.weight = entry.weight.min(*weight),
            Amend::Value(value) => entry.meta.value = Some(Arc::clone(value)),
            Amend::Meta(meta) => entry.meta = meta.clone(),
        }
        line.touch();
        line.settle(now);
        Amended::Done
    }

    pub(in crate::backend::memory) fn line(&mut self, name: &LockName, now: Instant) -> Line {
        let Some(line) = self.lines.get_mut(name) else { return Line::default() };
        line.settle(now);
        let entries: Vec<Entry> = line
            .entries
            .iter()
            .filter(|(_, p)| p.is_counted(now))
            .map(|(t, p)| p.entry(*t, now))
            .collect();
        Line {
            revision: Revision(line.revision),
            last_token: (line.last_token > 0).then_some(line.last_token),
            entries,
        }
    }

    #[cfg(feature = "testing")]
    pub(in crate::backend::memory) fn holders(&mut self, now: Instant) -> Vec<ClaimKey> {
        let lines = self.lines.values_mut().flat_map(|line| {
            line.settle(now);
            line.entries.values()
        });
        lines
            .filter(|entry| entry.granted && entry.is_live(now))
            .map(|entry| entry.key.clone())
            .collect()
    }

    pub(in crate::backend::memory) fn names(
        &mut self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
        now: Instant,
    ) -> Vec<LockName> {
        let live = |line: &Queue| line.entries.values().any(|p| p.is_counted(now));
        let mut names: Vec<_> = self
            .lines
            .iter()
            .filter(|(name, _)| {
                name.as_str().starts_with(prefix) && after.is_none_or(|after| *name > after)
            })
            .filter(|(_, line)| live(line))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names.truncate(limit);
        names
    }

    pub(in crate::backend::memory) fn evict(
        &mut self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
        now: Instant,
    ) -> Evicted {
        let Some(line) = self.lines.get_mut(name) else { return Evicted::Absent };
        line.settle(now);
        let matches = |token: u64, entry: &QueueEntry| match target {
            _ if !entry.is_counted(now) => false,
            Target::Token(wanted) => entry.granted && token == *wanted,
            Target::Id(hash) => entry.key.id.hash() == *hash,
        };
        let Some((token, entry)) =
            line.entries.iter_mut().map(|(t, p)| (*t, p)).find(|(t, p)| matches(*t, p))
        else {
            return Evicted::Absent;
        };
        match how {
            // The holder of a kept claim is gone, so there is no client to report to.
            _ if entry.kept => line.remove(token),
            Evict::Mark => {
                entry.broken =
                    Some(Broken { by: by.into(), reason: reason.into(), removed: false });
                entry.keep_until = now;
            }
            Evict::Now => {
                let broken = Broken { by: by.into(), reason: reason.into(), removed: true };
                self.removed.retain(|_, (_, until)| *until > now);
                self.removed.insert(entry.key.id, (broken, entry.expires));
                line.remove(token);
            }
        }
        line.touch();
        line.settle(now);
        Evicted::Done
    }

    /// Sends the request to all holders, and returns them.
    pub(in crate::backend::memory) fn request(
        &mut self,
        name: &LockName,
        asked: &Asked,
        now: Instant,
    ) -> Vec<ClaimId> {
        let Some(line) = self.lines.get_mut(name) else { return Vec::new() };
        line.settle(now);
        let holders =
            line.entries.values_mut().filter(|p| p.granted && p.is_live(now) && p.broken.is_none());
        let ids = holders.map(|entry| {
            entry.asked = Some(asked.clone());
            entry.key.id
        });
        let ids: Vec<_> = ids.collect();
        line.touch();
        ids
    }

    /// The request for a granted claim, if there is one.
    pub(in crate::backend::memory) fn asked(&self, key: &ClaimKey) -> Option<Asked> {
        let line = self.lines.get(&key.name)?;
        line.entries.get(line.by_id.get(&key.id)?)?.asked.clone()
    }

    pub(in crate::backend::memory) fn look_at_claim(
        &mut self,
        key: &ClaimKey,
        now: Instant,
    ) -> Look {
        let found = self.lines.get(&key.name).and_then(|line| {
            let token = *line.by_id.get(&key.id)?;
            line.entries.get(&token).filter(|entry| entry.expires > now).map(|entry| (token, entry))
        });
        match found {
            None => Look::Wake(Wake::Changed),
            Some((token, entry)) if entry.granted => Look::Wake(Wake::Granted { token }),
            Some((_, entry)) => Look::Wait(Arc::clone(&entry.notify)),
        }
    }

    /// A name without a line is at revision 0, as [`Lines::line`] shows it.
    pub(in crate::backend::memory) fn look_at_name(
        &mut self,
        name: &LockName,
        seen: Revision,
    ) -> Look {
        if !self.lines.contains_key(name) && seen == Revision::default() {
            self.lines.insert(name.clone(), Queue { last_token: self.floor, ..Queue::default() });
        }
        match self.lines.get(name) {
            Some(line) if Revision(line.revision) == seen => Look::Wait(Arc::clone(&line.changed)),
            _ => Look::Wake(Wake::Changed),
        }
    }

    fn line_of<'a>(
        lines: &'a mut HashMap<LockName, Queue>,
        floor: u64,
        name: &LockName,
    ) -> &'a mut Queue {
        if !lines.contains_key(name) {
            lines.insert(
                name.clone(),
                Queue { last_token: floor, revision: random::below(1 << 60), ..Queue::default() },
            );
        }
        // The line was inserted above if it was missing.
        #[allow(clippy::expect_used, reason = "inserted above")]
        lines.get_mut(name).expect("the line was just inserted")
    }

    /// The number of lines, with the empty ones.
    #[cfg(test)]
    pub(in crate::backend::memory) fn count(&self) -> usize {
        self.lines.len()
    }

    fn forget_idle_lines(&mut self, now: Instant) {
        if self.lines.len() <= IDLE_LINES {
            return;
        }
        // A claim that only a minimum hold has kept leaves its line at the next look, and there may
        // be no further look.
        let is_over = |line: &&mut Queue| {
            line.entries.values().next().is_some_and(|first| !first.is_counted(now))
        };
        self.lines.values_mut().filter(is_over).for_each(|line| line.settle(now));
        let idle = |line: &Queue| line.entries.is_empty() && Arc::strong_count(&line.changed) == 1;
        let highest =
            self.lines.values().filter(|l| idle(l)).map(|l| l.last_token).max().unwrap_or(0);
        self.floor = self.floor.max(highest);
        self.lines.retain(|_, line| !idle(line));
    }
}
