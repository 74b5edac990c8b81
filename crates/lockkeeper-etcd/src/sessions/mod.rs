//! The sessions of this client: their leases, and the claims that stand on them.
//!
//! A session has leases of two lives: one that claims which wait stand on, so that a dead waiter
//! costs seconds, and one for those that hold. Where both lives are the same, it is one lease. A
//! lease bears so many claims; then the next one is made.

mod claims;
mod lease_requests;
mod life;
mod lists;
mod others;
mod shared;
mod slots;
mod timers;
mod tombstones;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::sync::lock;
use tokio::sync::Mutex as Gate;

pub(crate) use self::claims::{ClaimState, WatchedBy};
pub(crate) use self::shared::Verdicts;
pub(crate) use self::slots::KeySlot;
use self::slots::KeySlots;
pub(crate) use self::tombstones::{REMEMBERED, Tombstones};
use crate::layout::{Lines, lease_of};
use crate::store::{ClaimId, ClaimKey, Live, SessionId, SessionSpec};
use crate::time::Instant;
use crate::{Error, ErrorKind, LockName};

/// With many more keys on one lease each put takes longer, and its revocation stops the others.
const PER_LEASE: usize = 500;

/// How much longer the lease of waiters lasts than they may believe, and how old its last renewal
/// may be when another joins them: whoever waits is on it for its whole life from the moment on at
/// which it asked.
const SLACK: Duration = Duration::from_secs(1);

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Hold,
    Wait,
}

/// All sessions of a client.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: Mutex<Known>,
    /// Serves the calls in their order that look for a session that another client has opened.
    pub(crate) finding: Gate<()>,
}

#[derive(Debug, Default)]
struct Known {
    all: HashMap<SessionId, Arc<Session>>,
    /// Those that were closed here, until when that is remembered.
    closed: HashMap<SessionId, Instant>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Session {
    /// What the store keeps for a holder and for a waiter: seconds.
    pub(crate) hold: i64,
    pub(crate) wait: i64,
    pub(crate) id: SessionId,
    /// With what it was opened.
    pub(crate) spec: SessionSpec,
    /// The revision that created the record of a detached session. It distinguishes the session
    /// from a later one with the same id. 0 for a session that is not detached.
    pub(crate) recorded: i64,
    /// Whether its claims use slots one after the other: nobody else has to find them, and nobody
    /// else has used any.
    reuses_keys: bool,
    inner: Mutex<Inner>,
    /// Whoever makes a lease, or ends them all. Whether they were ended.
    pub(crate) gate: Gate<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    leases: Vec<Lease>,
    claims: HashMap<ClaimId, ClaimState>,
    slots: KeySlots,
    /// Keys that are on a lease and that no renewal has listed, since when.
    unlisted: HashMap<Bytes, Instant>,
    /// Keys of which a client has said that it has missed them, by the revision of that, and when
    /// that was seen first.
    missed: HashMap<Bytes, (i64, Instant)>,
    /// Claims of a detached session that were on no lease of the session in the last whole list,
    /// since when.
    absent: HashMap<ClaimId, Instant>,
    /// When the keys of all leases were listed last.
    listed: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    purpose: Purpose,
    claims: usize,
    /// When its last renewal was sent.
    renewed: Instant,
    /// For how many seconds it lives from then on; 0 before that is known.
    ttl: i64,
    /// Whether it was renewed since it was listed here. A renewal of the session that does not know
    /// it proves nothing of it, and whoever is put on it believes in that renewal.
    ready: bool,
    /// Since when nothing stands on it and nobody has chosen it, as far as was seen.
    empty: Option<Instant>,
    /// Since when nothing more is put on it: it is about to be given back.
    retired: Option<Instant>,
}

impl Sessions {
    /// A session that was opened, unless it is known already.
    pub(crate) fn insert(&self, session: Session, now: Instant) -> Arc<Session> {
        let mut known = self.lock();
        // Those that were lost, or given away, are closed by nobody.
        known.all.retain(|_, session| !session.is_over(now));
        Arc::clone(known.all.entry(session.id.clone()).or_insert_with(|| Arc::new(session)))
    }

    #[cfg(test)]
    pub(crate) fn opened(
        &self,
        id: &SessionId,
        spec: &SessionSpec,
        is_new: bool,
        sent: Instant,
    ) -> Arc<Session> {
        self.insert(Session::opened(id, spec, is_new, 0, sent), sent)
    }

    /// The session of this name, if this client has used it before.
    pub(crate) fn known(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().all.get(id).cloned()
    }

    /// Whether it was closed here a short while ago.
    pub(crate) fn was_closed(&self, id: &SessionId, now: Instant) -> bool {
        self.lock().closed.get(id).is_some_and(|until| *until > now)
    }

    /// It was closed, which is remembered until then.
    pub(crate) fn closed(&self, id: &SessionId, until: Instant) {
        let mut known = self.lock();
        known.all.remove(id);
        let before = until - REMEMBERED;
        known.closed.retain(|_, until| *until > before);
        known.closed.insert(id.clone(), until);
    }

    /// The session in which this claim is.
    pub(crate) fn of(&self, id: ClaimId) -> Option<Arc<Session>> {
        self.lock().all.values().find(|session| session.claim_state(id).is_some()).cloned()
    }

    /// etcd has ended the session. A detached one may be closed by nobody here.
    pub(crate) fn lost(&self, lost: &Session) {
        let mut known = self.lock();
        // The same id may be another session by now.
        let is_lost =
            |session: &Arc<Session>| session.is_shared() && session.recorded == lost.recorded;
        if known.all.get(&lost.id).is_some_and(is_lost) {
            known.all.remove(&lost.id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Session {
    /// `is_new`: its first lease was made by this client just now, so that nothing of it can be
    /// anywhere. A detached session was `recorded` by this revision.
    pub(crate) fn opened(
        id: &SessionId,
        spec: &SessionSpec,
        is_new: bool,
        recorded: i64,
        sent: Instant,
    ) -> Self {
        let session = Self {
            hold: seconds(spec.ttl + spec.lock_delay),
            wait: seconds(spec.wait_ttl + SLACK),
            id: id.clone(),
            spec: spec.clone(),
            recorded,
            reuses_keys: is_new && !spec.detached,
            inner: Mutex::default(),
            gate: Gate::default(),
        };
        session.add(lease_of(id), Purpose::Hold, sent);
        session.renewed(lease_of(id), sent, session.hold);
        session
    }

    /// The ttl that counts for a claim of it with this ttl.
    pub(crate) fn keeps(&self, ttl: Duration) -> Duration {
        self.spec.ttl.min(ttl)
    }

    /// Whether other clients may use it at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.spec.detached
    }

    /// Whether waiters and holders stand on the same lease.
    pub(crate) fn has_one_ttl(&self) -> bool {
        self.hold <= self.wait
    }

    /// A lease that bears one more claim.
    pub(crate) fn lease(&self, purpose: Purpose) -> Option<i64> {
        let purpose = if self.has_one_ttl() { Purpose::Hold } else { purpose };
        let mut inner = self.lock();
        let has_room = |lease: &Lease| lease.claims < PER_LEASE;
        let bears = |lease: &&mut Lease| {
            lease.ready && lease.retired.is_none() && lease.purpose == purpose && has_room(lease)
        };
        // The first of those that have room, so that the last ones become empty after a rush.
        let lease = inner.leases.iter_mut().find(bears)?;
        // A claim that is on its way there is counted once it stands.
        lease.empty = None;
        Some(lease.id)
    }

    /// A lease of the session, unless it is known already: what this client makes, a renewal of
    /// this client may have read before the answer came.
    pub(crate) fn add(&self, id: i64, purpose: Purpose, renewed: Instant) {
        let mut inner = self.lock();
        if inner.leases.iter().all(|lease| lease.id != id) {
            let lease = Lease {
                id,
                purpose,
                claims: 0,
                renewed,
                ttl: 0,
                ready: false,
                empty: None,
                retired: None,
            };
            inner.leases.push(lease);
        }
    }

    /// A renewal of it was acknowledged, for so many seconds.
    pub(crate) fn renewed(&self, id: i64, sent: Instant, seconds: i64) {
        if let Some(lease) = self.lock().leases.iter_mut().find(|lease| lease.id == id) {
            (lease.renewed, lease.ttl) = (lease.renewed.max(sent), seconds);
            lease.ready = true;
        }
    }

    /// A lease for those who wait is not there any more: nobody renews it while nobody waits.
    pub(crate) fn ended(&self, id: i64) {
        self.lock().leases.retain(|lease| lease.id != id || lease.purpose == Purpose::Hold);
    }

    /// Every lease of it that can be there still. etcd does not answer a renewal of one whose time
    /// is over before it has removed it, and would hold up those of the others. Of a detached
    /// session others may have renewed it.
    pub(crate) fn living(&self, now: Instant) -> Vec<i64> {
        let wait = Duration::from_secs(self.wait.unsigned_abs());
        let mut inner = self.lock();
        let may_live = |lease: &Lease| {
            self.is_shared()
                || lease.purpose == Purpose::Hold
                || now.saturating_since(lease.renewed) < wait
        };
        inner.leases.retain(may_live);
        inner.leases.iter().map(|lease| lease.id).collect()
    }

    /// Whether nothing of it can be there any more, by a wide margin.
    fn is_over(&self, now: Instant) -> bool {
        let ttl = Duration::from_secs(self.hold.max(self.wait).unsigned_abs());
        let inner = self.lock();
        inner
            .leases
            .iter()
            .all(|lease| now.saturating_since(lease.renewed) > ttl * 3 + Duration::from_secs(60))
    }

    /// Whether a lease may end before whoever joins those who wait there stops believing.
    pub(crate) fn is_stale(&self, id: i64, now: Instant) -> bool {
        let inner = self.lock();
        let lease =
            inner.leases.iter().find(|lease| lease.id == id && lease.purpose == Purpose::Wait);
        lease.is_some_and(|lease| !lease.ready || now.saturating_since(lease.renewed) > SLACK)
    }

    /// Every lease of it, for its end.
    pub(crate) fn leases(&self) -> Vec<i64> {
        self.lock().leases.iter().map(|lease| lease.id).collect()
    }

    /// What this lease is for, if it is one of this session.
    pub(crate) fn purpose(&self, lease: i64) -> Option<Purpose> {
        self.lock().leases.iter().find(|own| own.id == lease).map(|own| own.purpose)
    }

    /// Whether a holder may be on this lease: the client has renewed it since it knows of it. A
    /// lease that another client has made may end before the deadline that the last renewal of this
    /// client has given the holder.
    pub(crate) fn bears_holders(&self, lease: i64) -> bool {
        let inner = self.lock();
        inner.leases.iter().any(|own| own.id == lease && own.purpose == Purpose::Hold && own.ready)
    }

    /// Where this claim is, or is to be.
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

    /// No key of this claim is there, and no request can make one: another claim may use the slot.
    pub(crate) fn releases_slot(&self, key: &ClaimKey, now: Instant) {
        let mut inner = self.lock();
        inner.leave(key.id);
        inner.slots.release(key.id, now);
    }

    /// The claim is to take the place of that one.
    pub(crate) fn replaces(&self, id: ClaimId, old: Option<ClaimId>) {
        self.lock().slots.replaces(id, old);
    }

    /// The claim holds: whose place it has taken, which is said once.
    pub(crate) fn has_replaced(&self, id: ClaimId) -> Option<ClaimId> {
        self.lock().slots.has_replaced(id)
    }

    /// The claims that have a slot.
    pub(crate) fn claims_with_slots(&self, session: &SessionId) -> Vec<ClaimKey> {
        let key = |(id, name): (ClaimId, &LockName)| ClaimKey {
            name: name.clone(),
            session: session.clone(),
            id,
        };
        self.lock().slots.all().map(key).collect()
    }

    /// Whether this claim has a slot: it was not withdrawn.
    pub(crate) fn has_slot(&self, id: ClaimId) -> bool {
        self.lock().slots.of(id).is_some()
    }

    /// A key of this claim may be there, or a request may arrive late: no other claim gets the
    /// slot.
    pub(crate) fn retires_slot(&self, id: ClaimId) {
        self.lock().slots.retire(id);
    }

    /// Whether a claim has got this slot that the renewal which was sent then may not have listed.
    pub(crate) fn may_be_unlisted(&self, at: &Bytes, sent: Instant) -> bool {
        let ttl = Duration::from_secs(self.hold.unsigned_abs());
        self.lock().slots.has_taken_within(at, ttl, sent)
    }

    /// So many claims are on their way to this lease, until the answer is dropped.
    pub(crate) fn expects(&self, lease: i64, claims: usize) -> Expected<'_> {
        let claims = isize::try_from(claims).unwrap_or(isize::MAX);
        self.lock().count(lease, claims);
        Expected { session: self, lease, claims }
    }

    /// Takes note of which keys nobody listed. Those that nobody has listed for a whole life are
    /// left over from lost replies.
    pub(crate) fn left_over(&self, unlisted: Vec<Bytes>, now: Instant) -> Vec<Bytes> {
        let ttl = Duration::from_secs(self.hold.unsigned_abs());
        let mut inner = self.lock();
        let since = |key: Bytes| {
            let since = inner.unlisted.get(&key).copied().unwrap_or(now);
            (key, since)
        };
        let noted: HashMap<_, _> = unlisted.into_iter().map(since).collect();
        inner.unlisted = noted;
        inner
            .unlisted
            .iter()
            .filter(|(_, since)| now.saturating_since(**since) >= ttl)
            .map(|(k, _)| k.clone())
            .collect()
    }

    /// Forgets the claims that are on no lease of the session, as a whole list of the keys shows,
    /// and that this client has not listed for a whole life: another client has withdrawn them.
    pub(crate) fn forget_absent(&self, keys: &HashMap<Bytes, i64>, live: &[Live], now: Instant) {
        let ttl = Duration::from_secs(self.hold.unsigned_abs());
        let mut inner = self.lock();
        let listed: HashSet<ClaimId> = live.iter().map(|live| live.key.id).collect();
        let is_absent = |id: &ClaimId| {
            !listed.contains(id)
                && inner.slots.of(*id).is_none_or(|slot| !keys.contains_key(&slot.at))
        };
        let absent: Vec<ClaimId> = inner.claims.keys().copied().filter(is_absent).collect();
        let since = |id: ClaimId| (id, inner.absent.get(&id).copied().unwrap_or(now));
        let absent: HashMap<ClaimId, Instant> = absent.into_iter().map(since).collect();
        let (over, absent): (Vec<_>, Vec<_>) =
            absent.into_iter().partition(|(_, since)| now.saturating_since(*since) >= ttl);
        inner.absent = absent.into_iter().collect();
        for (id, _) in over {
            inner.leave(id);
            inner.slots.release(id, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    fn leave(&mut self, id: ClaimId) -> Option<ClaimState> {
        let state = self.claims.remove(&id)?;
        self.count(state.lease, -1);
        Some(state)
    }

    fn is_on(&mut self, id: ClaimId, to: i64) {
        let Some(state) = self.claims.get_mut(&id) else { return };
        let before = std::mem::replace(&mut state.lease, to);
        self.count(to, 1);
        self.count(before, -1);
    }

    fn count(&mut self, lease: i64, change: isize) {
        if let Some(lease) = self.leases.iter_mut().find(|own| own.id == lease) {
            lease.claims = lease.claims.saturating_add_signed(change);
        }
    }
}

/// Claims that are on their way to a lease and take room there, though nobody may wait for the end
/// of that any more.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    session: &'a Session,
    lease: i64,
    claims: isize,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.session.lock().count(self.lease, -self.claims);
    }
}

/// etcd has no session of this name any more.
pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::SessionLost, "etcd has ended the lease of this session")
        .with_remedy("acquire it again, in a new session")
}

/// What etcd counts in.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1)
}
