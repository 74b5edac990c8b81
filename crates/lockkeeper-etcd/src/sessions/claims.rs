//! Which claims of this client are in a session, the key slot of each one, and where it stands.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use lockkeeper_core::sync::lock;

use super::leases::Leases;
use super::sightings::Sightings;
use super::slots::{KeySlot, KeySlots};
use crate::LockName;
use crate::keep::Timer;
use crate::layout::{Lines, Record};
use crate::look::Neighbours;
use crate::store::{ClaimId, ClaimKey, Live, LiveState, SessionId};
use crate::time::Instant;
use crate::wire::Reader;

/// The state of a claim of this client, as far as the client knows.
#[derive(Clone, Debug)]
pub(crate) struct ClaimState {
    pub(crate) lease: i64,
    /// The revision that created the key; 0 before that is known.
    pub(crate) created: i64,
    /// A look has found that the claim holds, and the claim is on a lease of holders.
    pub(crate) held: bool,
    /// The record says since when the claim holds, and no request that changes the claim is on its
    /// way.
    pub(crate) is_dated: bool,
    /// When the claim was notified of its grant, if it waited.
    pub(crate) granted: Option<Instant>,
    /// How the claim is notified of its grant while it waits.
    pub(crate) watched: Option<WatchedBy>,
    /// What blocked the claim when it joined the line.
    pub(crate) blocked_by: Option<Neighbours>,
    pub(crate) record: Arc<Record>,
    /// Another client has sent the claim since, and receives its wake-ups.
    pub(crate) is_elsewhere: bool,
}

/// The watches that report the grant and the end of a claim.
#[derive(Clone, Debug)]
pub(crate) struct WatchedBy {
    /// When the last look found that the claim waits.
    pub(crate) since: Instant,
    /// The watches that report every change after that look.
    pub(crate) by: Vec<Reader>,
}

impl ClaimState {
    /// A claim that waits on this lease, as far as is known.
    pub(crate) fn new(lease: i64, created: i64, record: Arc<Record>) -> Self {
        Self {
            lease,
            created,
            held: false,
            is_dated: false,
            granted: None,
            watched: None,
            blocked_by: None,
            record,
            is_elsewhere: false,
        }
    }

    /// Whether the claim waits, and its watches have reported neither a grant nor an end since this
    /// moment. An unread report may be the grant of a claim that is no longer polled.
    pub(crate) fn waits_watched(&self, since: Instant) -> bool {
        let knows_all = |watched_by: &WatchedBy| {
            watched_by.since > since && watched_by.by.iter().all(Reader::is_up_to_date)
        };
        !self.held && self.watched.as_ref().is_some_and(knows_all)
    }
}

/// The claims of a session.
#[derive(Debug)]
pub(crate) struct Claims {
    /// The leases that the claims are counted on.
    leases: Arc<Leases>,
    /// The claims use key slots one after the other: no other client has to find a claim, and none
    /// has used a slot.
    reuses_keys: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    states: HashMap<ClaimId, ClaimState>,
    slots: KeySlots,
    /// The claims of a detached session that are on no lease of the session.
    absent: Sightings<ClaimId>,
}

impl Claims {
    pub(super) fn new(leases: Arc<Leases>, reuses_keys: bool) -> Self {
        Self { leases, reuses_keys, inner: Mutex::default() }
    }

    /// Notes the state of a claim, unless the claim was withdrawn meanwhile.
    pub(crate) fn insert(&self, id: ClaimId, state: ClaimState) {
        let mut inner = self.lock();
        if inner.slots.of(id).is_none() {
            return;
        }
        let on = state.lease;
        inner.slots.made(id, state.created);
        let before = inner.states.insert(id, state).map(|before| before.lease);
        self.leases.moved(before, Some(on));
    }

    /// Notes that the claim holds, unless the claim was withdrawn meanwhile.
    pub(crate) fn holds(&self, id: ClaimId, lease: i64, created: i64) {
        let mut inner = self.lock();
        let Some(state) = inner.states.get_mut(&id) else { return };
        (state.created, state.held) = (created, true);
        self.is_on(&mut inner, id, lease);
        inner.slots.made(id, created);
    }

    /// Notes when the claim was notified of its grant.
    pub(crate) fn was_granted(&self, id: ClaimId, now: Instant) {
        self.change(id, |state| {
            state.granted.get_or_insert(now);
        });
    }

    /// Notes that the record says since when the claim holds.
    pub(crate) fn is_dated(&self, id: ClaimId) {
        self.change(id, |state| state.is_dated = true);
    }

    /// Notes that a request which may arrive late changes the claim. No renewal takes the claim to
    /// be where it was before its record is written again; a late request changes nothing after
    /// that.
    pub(crate) fn is_unsettled(&self, id: ClaimId) {
        self.change(id, |state| state.is_dated = false);
    }

    /// Notes that the claim joined the line behind these neighbours.
    pub(crate) fn waits_for(&self, id: ClaimId, neighbours: Neighbours) {
        let neighbours = neighbours.read_before_a_watch();
        self.change(id, |state| state.blocked_by = Some(neighbours));
    }

    /// Notes that watches report the grant of the claim from now on, or no longer.
    pub(crate) fn is_watched(&self, id: ClaimId, watched: Option<WatchedBy>) {
        self.change(id, |state| state.watched = watched);
    }

    /// Notes that a look has found then that the claim waits.
    pub(crate) fn was_looked_at(&self, id: ClaimId, now: Instant) {
        self.change(id, |state| {
            if let Some(watched_by) = &mut state.watched {
                watched_by.since = now;
            }
        });
    }

    /// Notes that another client has sent the claim since.
    pub(crate) fn is_elsewhere(&self, id: ClaimId) {
        self.change(id, |state| state.is_elsewhere = true);
    }

    /// Notes the record of the claim.
    pub(crate) fn shows(&self, id: ClaimId, record: Record) {
        self.change(id, |state| state.record = Arc::new(record));
    }

    pub(crate) fn state(&self, id: ClaimId) -> Option<ClaimState> {
        self.lock().states.get(&id).cloned()
    }

    /// Forgets the state of a claim in which the client no longer believes, and returns it.
    pub(crate) fn left(&self, id: ClaimId) -> Option<ClaimState> {
        self.leave(&mut self.lock(), id)
    }

    /// Which leases have to be listed for these claims: the lease of each claim whose end no watch
    /// would report. `None` if one of the claims is not known.
    pub(super) fn to_list(&self, live: &[Live], trusted: Instant) -> Option<Vec<i64>> {
        let inner = self.lock();
        let mut needed = Vec::new();
        for live in live {
            let state = inner.states.get(&live.key.id)?;
            if live.state != LiveState::Queued || !state.waits_watched(trusted) {
                needed.push(state.lease);
            }
        }
        Some(needed)
    }

    /// Forgets the claims that are on no lease of the session, as a whole list of the keys shows,
    /// and that this client has not listed for a whole ttl: another client has withdrawn them.
    pub(crate) fn forget_absent(&self, keys: &HashMap<Bytes, i64>, live: &[Live], now: Instant) {
        let listed: HashSet<ClaimId> = live.iter().map(|live| live.key.id).collect();
        let mut inner = self.lock();
        let Inner { states, slots, absent } = &mut *inner;
        let is_absent = |id: &ClaimId| {
            !listed.contains(id) && slots.of(*id).is_none_or(|slot| !keys.contains_key(&slot.at))
        };
        // A claim whose answer was lost has a slot only.
        let known: HashSet<ClaimId> =
            states.keys().copied().chain(slots.all().map(|(id, _)| id)).collect();
        absent.note(known.into_iter().filter(is_absent), now);
        for id in absent.take_older(self.leases.whole(), now) {
            self.leave(&mut inner, id);
            inner.slots.release(id, now);
        }
    }
}

/// The key slots of the claims.
impl Claims {
    /// The slot of this claim. The claim gets one if it has none.
    pub(crate) fn slot(&self, lines: &Lines, key: &ClaimKey, now: Instant) -> KeySlot {
        let mut inner = self.lock();
        match inner.slots.of(key.id) {
            Some(slot) => slot.clone(),
            None if !self.reuses_keys => inner.slots.take_private(lines, key, now),
            None => inner.slots.take(lines, key, now),
        }
    }

    /// The slot of this claim, or the slot that a claim of another client would have.
    pub(crate) fn slot_of(&self, lines: &Lines, key: &ClaimKey) -> KeySlot {
        let unknown = || KeySlot::private(lines, key, Instant::from_nanos(0));
        self.lock().slots.of(key.id).cloned().unwrap_or_else(unknown)
    }

    /// Whether this claim has a slot: it was not withdrawn.
    pub(crate) fn has_slot(&self, id: ClaimId) -> bool {
        self.lock().slots.of(id).is_some()
    }

    /// The claims that have a slot.
    pub(crate) fn with_slots(&self, session: &SessionId) -> Vec<ClaimKey> {
        let key = |(id, name): (ClaimId, &LockName)| ClaimKey {
            name: name.clone(),
            session: session.clone(),
            id,
        };
        self.lock().slots.all().map(key).collect()
    }

    /// Frees the slot: no key of this claim is there, and no request can put one.
    pub(crate) fn releases_slot(&self, key: &ClaimKey, now: Instant) {
        let mut inner = self.lock();
        self.leave(&mut inner, key.id);
        inner.slots.release(key.id, now);
    }

    /// Retires the slot: a key of this claim may be there, or a request may arrive late. No other
    /// claim gets the slot.
    pub(crate) fn retires_slot(&self, id: ClaimId) {
        self.lock().slots.retire(id);
    }

    /// Whether a claim has got this slot so late that a renewal sent at this moment may not have
    /// listed the claim.
    pub(crate) fn may_be_unlisted(&self, at: &Bytes, sent: Instant) -> bool {
        self.lock().slots.has_taken_within(at, self.leases.whole(), sent)
    }

    /// Notes that the claim is to take the place of that one.
    pub(crate) fn replaces(&self, id: ClaimId, old: Option<ClaimId>) {
        self.lock().slots.replaces(id, old);
    }

    /// The claim that this claim has replaced. Returned once.
    pub(crate) fn has_replaced(&self, id: ClaimId) -> Option<ClaimId> {
        self.lock().slots.has_replaced(id)
    }
}

/// The timers of minimum holds (`keep`).
impl Claims {
    /// Notes that this timer times the minimum hold of a claim, which is on that lease now.
    pub(crate) fn is_timed(&self, id: ClaimId, timer: Timer, on: i64) {
        let mut inner = self.lock();
        inner.slots.times(id, timer);
        self.is_on(&mut inner, id, on);
        if let Some(state) = inner.states.get_mut(&id) {
            state.held = true;
        }
    }

    /// Notes that this lease may time the minimum hold of a claim: the answer was lost.
    pub(crate) fn may_be_timed(&self, id: ClaimId, lease: i64) {
        self.lock().slots.may_time(id, lease);
    }

    /// Notes that this timer times the minimum hold that a claim inherits.
    pub(crate) fn times(&self, id: ClaimId, timer: Timer) {
        self.lock().slots.times(id, timer);
    }

    /// The known timer of a claim's minimum hold.
    pub(crate) fn timer(&self, id: ClaimId) -> Option<Timer> {
        self.lock().slots.of(id).and_then(|slot| slot.timer)
    }

    /// Whether this client knows the timer of each claim that has one: no other client has the
    /// claims.
    pub(crate) fn knows_timers(&self) -> bool {
        self.reuses_keys
    }
}

impl Claims {
    fn change(&self, id: ClaimId, change: impl FnOnce(&mut ClaimState)) {
        if let Some(state) = self.lock().states.get_mut(&id) {
            change(state);
        }
    }

    fn leave(&self, inner: &mut Inner, id: ClaimId) -> Option<ClaimState> {
        let state = inner.states.remove(&id)?;
        self.leases.moved(Some(state.lease), None);
        Some(state)
    }

    fn is_on(&self, inner: &mut Inner, id: ClaimId, to: i64) {
        let Some(state) = inner.states.get_mut(&id) else { return };
        let before = std::mem::replace(&mut state.lease, to);
        self.leases.moved(Some(before), Some(to));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}
