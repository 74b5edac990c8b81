//! The lines, and every operation on them as a plain function of the state and the time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::admit::{Admission, Standing};
use crate::store::{
    Amend, Amended, Broken, Claim, ClaimId, ClaimKey, Entry, Evict, Evicted, Line, Live, LiveState, Meta, Renewal,
    Revision, SessionId, TOMBSTONE_MIN, Target, Verdict, Wake, Withdrawal, refusal,
};
use crate::time::Instant;
use crate::{LockName, Result, random};

/// Empty lines beyond this many are forgotten.
const IDLE_LINES: usize = 4096;

/// The whole state of the store.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<LockName, Queue>,
    gone: HashMap<ClaimId, Instant>,
    /// No line that is made anew gives a token at or below this one.
    floor: u64,
}

/// One line. The order of the map is the order of the line, and its keys are the tokens.
#[derive(Debug, Default)]
struct Queue {
    places: BTreeMap<u64, Place>,
    by_id: HashMap<ClaimId, u64>,
    last_token: u64,
    revision: u64,
    changed: Arc<Notify>,
}

/// One claim in a line.
#[derive(Debug)]
struct Place {
    key: ClaimKey,
    weight: u32,
    capacity: u32,
    ttl: Duration,
    wait_ttl: Duration,
    lock_delay: Duration,
    meta: Meta,
    granted: bool,
    since: Instant,
    expires: Instant,
    broken: Option<Broken>,
    bell: Arc<Notify>,
}

/// What a waiter sees.
pub(super) enum Look {
    Wake(Wake),
    Wait(Arc<Notify>),
}

impl Lines {
    pub(super) fn claim(&mut self, claim: &Claim, now: Instant) -> Result<Verdict> {
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
            self.bury(id, now + claim.ttl.max(TOMBSTONE_MIN));
            return Ok(Verdict::Gone);
        }
        line.check(claim, now)?;
        match claim.replaces {
            Some(old) => Ok(line.replace(claim, old, now)),
            None => line.join(claim, now),
        }
    }

    /// A tombstone only ever stands longer: a second withdrawal must not shorten the first one's.
    fn bury(&mut self, id: ClaimId, until: Instant) {
        let stands = self.gone.entry(id).or_insert(until);
        *stands = until.max(*stands);
    }

    pub(super) fn renew(&mut self, live: &Live, now: Instant) -> Renewal {
        let absent = if live.state == LiveState::InFlight { Renewal::Unknown } else { Renewal::Lost(None) };
        let Some(line) = self.lines.get_mut(&live.key.name) else { return absent };
        line.settle(now);
        let Some(token) = line.find(live.key.id, now) else { return absent };
        let Some(place) = line.places.get(&token) else { return absent };
        if let Some(broken) = &place.broken {
            return Renewal::Lost(Some(broken.clone()));
        }
        line.live(token, now);
        match line.places.get(&token) {
            Some(place) if place.granted => Renewal::Held { token },
            _ => Renewal::Queued,
        }
    }

    pub(super) fn close(&mut self, session: &SessionId, now: Instant) {
        for line in self.lines.values_mut() {
            let theirs: Vec<u64> =
                line.places.iter().filter(|(_, p)| p.key.session == *session).map(|(token, _)| *token).collect();
            for token in theirs {
                line.remove(token);
            }
            line.settle(now);
        }
    }

    pub(super) fn withdraw(&mut self, key: &ClaimKey, tombstone: Option<Duration>, now: Instant) -> Withdrawal {
        if let Some(life) = tombstone {
            self.bury(key.id, now + life);
        }
        let Some(line) = self.lines.get_mut(&key.name) else { return Withdrawal::Absent };
        let found = line.find(key.id, now);
        if let Some(token) = found {
            line.remove(token);
        }
        line.settle(now);
        self.forget_idle_lines();
        if found.is_some() { Withdrawal::Removed } else { Withdrawal::Absent }
    }

    pub(super) fn amend(&mut self, key: &ClaimKey, change: &Amend, now: Instant) -> Amended {
        let Some(line) = self.lines.get_mut(&key.name) else { return Amended::NotLive };
        line.settle(now);
        let Some(place) = line.find(key.id, now).and_then(|t| line.places.get_mut(&t)) else {
            return Amended::NotLive;
        };
        match change {
            Amend::Shared if !place.granted => return Amended::NotLive,
            Amend::Shared => place.weight = 1,
            Amend::Value(value) => place.meta.value = Some(Arc::clone(value)),
            Amend::Meta(meta) => place.meta = meta.clone(),
        }
        line.touch();
        line.settle(now);
        Amended::Done
    }

    pub(super) fn line(&mut self, name: &LockName, now: Instant) -> Line {
        let Some(line) = self.lines.get_mut(name) else { return Line::default() };
        line.settle(now);
        let entries: Vec<Entry> =
            line.places.iter().filter(|(_, p)| p.expires > now).map(|(t, p)| p.entry(*t, now)).collect();
        Line {
            revision: Revision(line.revision),
            capacity: line.places.values().map(|p| p.capacity).min(),
            last_token: (line.last_token > 0).then_some(line.last_token),
            entries,
        }
    }

    pub(super) fn names(&mut self, prefix: &str, limit: usize, now: Instant) -> Vec<LockName> {
        let live = |line: &Queue| line.places.values().any(|p| p.expires > now);
        let mut names: Vec<_> = self
            .lines
            .iter()
            .filter(|(name, line)| name.as_str().starts_with(prefix) && live(line))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names.truncate(limit);
        names
    }

    pub(super) fn evict(
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
        let matches = |token: u64, place: &Place| match target {
            _ if place.expires <= now => false,
            Target::Token(wanted) => place.granted && token == *wanted,
            Target::Id(hash) => place.key.id.hash() == *hash,
        };
        let Some((token, place)) = line.places.iter_mut().map(|(t, p)| (*t, p)).find(|(t, p)| matches(*t, p)) else {
            return Evicted::Absent;
        };
        match how {
            Evict::Mark => place.broken = Some(Broken { by: by.into(), reason: reason.into() }),
            Evict::Now => line.remove(token),
        }
        line.touch();
        line.settle(now);
        Evicted::Done
    }

    pub(super) fn touch(&mut self, name: &LockName) {
        if let Some(line) = self.lines.get_mut(name) {
            line.touch();
        }
    }

    pub(super) fn look_at_claim(&mut self, key: &ClaimKey, now: Instant) -> Look {
        let found = self.lines.get(&key.name).and_then(|line| {
            let token = *line.by_id.get(&key.id)?;
            line.places.get(&token).filter(|place| place.expires > now).map(|place| (token, place))
        });
        match found {
            None => Look::Wake(Wake::Changed),
            Some((token, place)) if place.granted => Look::Wake(Wake::Granted { token }),
            Some((_, place)) => Look::Wait(Arc::clone(&place.bell)),
        }
    }

    /// A name that nobody used yet is at revision 0, as [`Lines::line`] shows it.
    pub(super) fn look_at_name(&mut self, name: &LockName, seen: Revision) -> Look {
        if !self.lines.contains_key(name) && seen == Revision::default() {
            self.lines.insert(name.clone(), Queue { last_token: self.floor, ..Queue::default() });
        }
        match self.lines.get(name) {
            Some(line) if Revision(line.revision) == seen => Look::Wait(Arc::clone(&line.changed)),
            _ => Look::Wake(Wake::Changed),
        }
    }

    fn line_of<'a>(lines: &'a mut HashMap<LockName, Queue>, floor: u64, name: &LockName) -> &'a mut Queue {
        if !lines.contains_key(name) {
            lines.insert(
                name.clone(),
                Queue { last_token: floor, revision: random::below(1 << 60), ..Queue::default() },
            );
        }
        // It was put there just now if it was not.
        #[allow(clippy::expect_used, reason = "inserted above")]
        lines.get_mut(name).expect("the line was just inserted")
    }

    fn forget_idle_lines(&mut self) {
        if self.lines.len() <= IDLE_LINES {
            return;
        }
        let idle = |line: &Queue| line.places.is_empty() && Arc::strong_count(&line.changed) == 1;
        let highest = self.lines.values().filter(|l| idle(l)).map(|l| l.last_token).max().unwrap_or(0);
        self.floor = self.floor.max(highest);
        self.lines.retain(|_, line| !idle(line));
    }
}

impl Queue {
    /// Removes the dead from the front and grants what has become admissible: after every change, and before every
    /// look. Stops at the first claim that has to wait, so it costs O(holders).
    fn settle(&mut self, now: Instant) {
        let mut rule = Admission::new();
        let mut dead = Vec::new();
        let mut granted = false;
        for (token, place) in &mut self.places {
            if place.expires <= now {
                dead.push(*token);
            } else if !rule.admit(place.standing()) {
                break;
            } else if !place.granted {
                place.grant(now);
                granted = true;
            }
        }
        for token in &dead {
            self.forget(*token);
        }
        if granted || !dead.is_empty() {
            self.touch();
        }
    }

    /// All live claims agree on the capacity, since each was checked at the door; epochs may rise along the line.
    fn check(&self, claim: &Claim, now: Instant) -> Result<()> {
        let live = || self.places.values().filter(|p| p.expires > now);
        if let Some(first) = live().next().filter(|p| p.capacity != claim.capacity) {
            return Err(refusal::capacity(first.capacity, claim.capacity));
        }
        match live().map(|p| p.meta.epoch).max() {
            Some(epoch) if epoch > claim.meta.epoch => Err(refusal::epoch(epoch, claim.meta.epoch)),
            _ => Ok(()),
        }
    }

    fn join(&mut self, claim: &Claim, now: Instant) -> Result<Verdict> {
        let mut rule = Admission::new();
        let open = self.places.values().all(|p| rule.admit(p.standing()));
        let standing = Standing { weight: claim.weight, capacity: claim.capacity, granted: false };
        let granted = open && rule.admit(standing);
        if !granted && !claim.queue {
            return Ok(self.busy(now));
        }
        if !granted {
            self.make_room(claim.max_waiters, now)?;
        }
        let token = self.append(claim, granted, now);
        Ok(self.verdict(token, now))
    }

    fn replace(&mut self, claim: &Claim, old: ClaimId, now: Instant) -> Verdict {
        let old_token = self.by_id.get(&old).copied();
        let others = self.places.iter().any(|(t, p)| p.expires > now && Some(*t) != old_token);
        match old_token {
            Some(old_token) if !others => {
                self.forget(old_token);
                let token = self.append(claim, true, now);
                self.verdict(token, now)
            }
            _ => self.busy(now),
        }
    }

    fn make_room(&mut self, max_waiters: u32, now: Instant) -> Result<()> {
        if self.waiting() < max_waiters as usize {
            return Ok(());
        }
        let dead: Vec<u64> = self.places.iter().filter(|(_, p)| p.expires <= now).map(|(t, _)| *t).collect();
        for token in dead {
            self.forget(token);
        }
        if self.waiting() < max_waiters as usize {
            return Ok(());
        }
        Err(refusal::queue_full(max_waiters))
    }

    fn waiting(&self) -> usize {
        self.places.len() - self.places.values().take_while(|p| p.granted).count()
    }

    fn append(&mut self, claim: &Claim, granted: bool, now: Instant) -> u64 {
        self.last_token += 1;
        let life = if granted { claim.ttl + claim.lock_delay } else { claim.wait_ttl };
        let place = Place {
            key: claim.key.clone(),
            weight: claim.weight,
            capacity: claim.capacity,
            ttl: claim.ttl,
            wait_ttl: claim.wait_ttl,
            lock_delay: claim.lock_delay,
            meta: claim.meta.clone(),
            granted,
            since: now,
            expires: now + life,
            broken: None,
            bell: Arc::default(),
        };
        self.places.insert(self.last_token, place);
        self.by_id.insert(claim.key.id, self.last_token);
        self.touch();
        self.last_token
    }

    /// Starts the life of a claim anew, for its own request.
    fn live(&mut self, token: u64, now: Instant) {
        if let Some(place) = self.places.get_mut(&token).filter(|p| p.broken.is_none()) {
            place.expires = now + if place.granted { place.ttl + place.lock_delay } else { place.wait_ttl };
        }
    }

    fn verdict(&self, token: u64, now: Instant) -> Verdict {
        match self.places.get(&token) {
            Some(place) if place.granted => Verdict::Granted { token, place: None },
            Some(_) => Verdict::Queued {
                ahead: u32::try_from(self.places.range(..token).filter(|(_, p)| p.expires > now).count())
                    .unwrap_or(u32::MAX),
                seen: Revision(self.revision),
                look_again: self.look_again(token, now),
            },
            None => Verdict::Gone,
        }
    }

    /// The first in line looks when the next of the holders would die; the others leave it to the first.
    fn look_again(&self, token: u64, now: Instant) -> Duration {
        let first_waiting = self.places.iter().find(|(_, p)| !p.granted).map(|(t, _)| *t);
        if first_waiting == Some(token) {
            let holders = self.places.range(..token).map(|(_, p)| p.expires).min();
            holders.map_or(Duration::ZERO, |at| at.saturating_since(now) + Duration::from_millis(1))
        } else {
            random::jittered(Duration::from_secs(10)).max(Duration::from_secs(5))
        }
    }

    fn busy(&self, now: Instant) -> Verdict {
        let mut holders = self.places.values().filter(|p| p.granted);
        let first = holders.next();
        Verdict::Busy {
            holder: first.map(|p| Arc::clone(&p.meta.owner)),
            retry_after: first.into_iter().chain(holders).map(|p| p.expires.saturating_since(now)).min(),
            seen: Revision(self.revision),
        }
    }

    /// The place of a live claim. One that died where `settle` does not come by, behind a waiter, goes now: nothing
    /// that its owner sends may bring it back.
    fn find(&mut self, id: ClaimId, now: Instant) -> Option<u64> {
        let token = *self.by_id.get(&id)?;
        if self.places.get(&token).is_some_and(|place| place.expires > now) {
            return Some(token);
        }
        self.remove(token);
        None
    }

    /// The answer to a claim that is in the line already.
    fn again(&mut self, token: u64, now: Instant) -> Verdict {
        match self.places.get(&token) {
            // Its life is not to start anew, so no answer may say that it holds.
            Some(place) if place.broken.is_some() => Verdict::Gone,
            _ => {
                self.live(token, now);
                self.verdict(token, now)
            }
        }
    }

    fn remove(&mut self, token: u64) {
        self.forget(token);
        self.touch();
    }

    fn forget(&mut self, token: u64) {
        if let Some(place) = self.places.remove(&token) {
            self.by_id.remove(&place.key.id);
            place.bell.notify_waiters();
        }
    }

    fn touch(&mut self) {
        self.revision += 1;
        self.changed.notify_waiters();
    }
}

impl Place {
    fn standing(&self) -> Standing {
        Standing { weight: self.weight, capacity: self.capacity, granted: self.granted }
    }

    /// A push: the claim stays on the life that it has.
    fn grant(&mut self, now: Instant) {
        self.granted = true;
        self.since = now;
        self.bell.notify_waiters();
    }

    fn entry(&self, token: u64, now: Instant) -> Entry {
        Entry {
            id: self.key.id.hash(),
            weight: self.weight,
            granted: self.granted,
            token: Some(token),
            meta: self.meta.clone(),
            age: Some(now.saturating_since(self.since)),
            expires_in: Some(self.expires.saturating_since(now)),
            broken: self.broken.clone(),
        }
    }
}
