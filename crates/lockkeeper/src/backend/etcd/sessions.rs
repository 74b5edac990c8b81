//! The sessions of this client: their leases, and the claims that stand on them.
//!
//! A session has leases of two lives: one that claims which wait stand on, so that a dead waiter costs seconds, and one
//! for those that hold. Where both lives are the same, it is one lease. A lease bears so many claims; then the next one
//! is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex as Gate;

use super::layout::Record;
use super::standing::Whom;
use super::{EtcdStore, fault};
use crate::store::{ClaimId, SessionId, SessionSpec};
use crate::time::Instant;
use crate::{Error, ErrorKind, Result};

/// With many more keys on one lease each put takes longer, and its revocation stops the others.
const PER_LEASE: usize = 500;

/// How much longer the lease of waiters lasts than they may believe, and how old its last renewal may be when another
/// joins them: whoever waits is on it for its whole life from the moment on at which it asked.
const SLACK: Duration = Duration::from_secs(1);

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Hold,
    Wait,
}

/// All sessions of a client.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionId, Arc<Session>>>);

/// One of them.
#[derive(Debug)]
pub(super) struct Session {
    /// What the store keeps for a holder and for a waiter: seconds.
    hold: i64,
    wait: i64,
    /// What a holder believes in; `None` for one that somebody else has opened.
    pub(super) life: Option<Duration>,
    inner: Mutex<Inner>,
    /// Whoever makes a lease.
    gate: Gate<()>,
}

#[derive(Debug, Default)]
struct Inner {
    leases: Vec<Lease>,
    claims: HashMap<ClaimId, Place>,
    /// Keys that are on a lease and that no renewal has listed, since when.
    unlisted: HashMap<Bytes, Instant>,
    /// What says that ids are gone, and for how long it is to stand.
    gone: Vec<(Bytes, Instant)>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    purpose: Purpose,
    claims: usize,
    /// When its last renewal was sent.
    renewed: Instant,
}

/// Where a claim of this client stands, as far as is known.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) lease: i64,
    /// The revision that made it; 0 before that is known.
    pub(super) created: i64,
    /// It was found to hold, and stands on a lease for that.
    pub(super) held: bool,
    /// Whom it waited for when it was put in line.
    pub(super) whom: Option<Whom>,
    pub(super) record: Arc<Record>,
}

impl Sessions {
    /// A session that was opened here, on this lease.
    pub(super) fn opened(&self, id: SessionId, spec: &SessionSpec, lease: i64, sent: Instant) {
        let session = Session::new(spec.ttl + spec.lock_delay, spec.wait_ttl + SLACK, Some(spec.ttl));
        session.add(lease, Purpose::Hold, sent);
        self.lock().insert(id, Arc::new(session));
    }

    /// The session of this name; one that was opened elsewhere is known by its lease.
    ///
    /// # Errors
    /// `SessionLost` for what never was one.
    pub(super) fn get(&self, id: &SessionId) -> Result<Arc<Session>> {
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(id) {
            return Ok(Arc::clone(session));
        }
        let lease = lease_of(id).ok_or_else(lost)?;
        let session = Arc::new(Session::new(Duration::ZERO, Duration::ZERO, None));
        session.add(lease, Purpose::Hold, Instant::from_nanos(0));
        sessions.insert(id.clone(), Arc::clone(&session));
        Ok(session)
    }

    pub(super) fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn new(hold: Duration, wait: Duration, life: Option<Duration>) -> Self {
        Self { hold: seconds(hold), wait: seconds(wait), life, inner: Mutex::default(), gate: Gate::default() }
    }

    /// Whether waiters and holders stand on the same lease.
    pub(super) fn has_one_life(&self) -> bool {
        self.hold <= self.wait
    }

    /// A lease that bears one more claim.
    pub(super) fn lease(&self, purpose: Purpose) -> Option<i64> {
        let purpose = if self.has_one_life() { Purpose::Hold } else { purpose };
        let inner = self.lock();
        let bears = |lease: &&Lease| lease.purpose == purpose && (lease.claims < PER_LEASE || self.life.is_none());
        inner.leases.iter().rfind(bears).map(|lease| lease.id)
    }

    fn add(&self, id: i64, purpose: Purpose, renewed: Instant) {
        self.lock().leases.push(Lease { id, purpose, claims: 0, renewed });
    }

    /// A renewal of it was acknowledged.
    pub(super) fn renewed(&self, id: i64, sent: Instant) {
        if let Some(lease) = self.lock().leases.iter_mut().find(|lease| lease.id == id) {
            lease.renewed = lease.renewed.max(sent);
        }
    }

    /// A lease for those who wait is not there any more: nobody renews it while nobody waits.
    pub(super) fn ended(&self, id: i64) {
        self.lock().leases.retain(|lease| lease.id != id || lease.purpose == Purpose::Hold);
    }

    /// The same for all of them.
    pub(super) fn no_waiters(&self) {
        self.lock().leases.retain(|lease| lease.purpose == Purpose::Hold);
    }

    /// Whether a lease may end before whoever joins those who wait there stops believing.
    fn is_stale(&self, id: i64, now: Instant) -> bool {
        let inner = self.lock();
        let lease = inner.leases.iter().find(|lease| lease.id == id && lease.purpose == Purpose::Wait);
        lease.is_some_and(|lease| now.saturating_since(lease.renewed) > SLACK)
    }

    /// Every lease of it.
    pub(super) fn leases(&self) -> Vec<i64> {
        self.lock().leases.iter().map(|lease| lease.id).collect()
    }

    /// What this lease is for, if it is one of this session.
    pub(super) fn purpose(&self, lease: i64) -> Option<Purpose> {
        self.lock().leases.iter().find(|own| own.id == lease).map(|own| own.purpose)
    }

    /// The claim stands there.
    pub(super) fn stands(&self, id: ClaimId, place: Place) {
        let mut inner = self.lock();
        inner.count(place.lease, 1);
        if let Some(before) = inner.claims.insert(id, place) {
            inner.count(before.lease, -1);
        }
    }

    /// It waits for that one.
    pub(super) fn waits_for(&self, id: ClaimId, whom: Whom) {
        if let Some(place) = self.lock().claims.get_mut(&id) {
            place.whom = Some(whom);
        }
    }

    pub(super) fn place(&self, id: ClaimId) -> Option<Place> {
        self.lock().claims.get(&id).cloned()
    }

    /// It shows this now.
    pub(super) fn shows(&self, id: ClaimId, record: Record) {
        if let Some(place) = self.lock().claims.get_mut(&id) {
            place.record = Arc::new(record);
        }
    }

    /// It was found on a lease of somebody else's.
    pub(super) fn is_broken(&self, id: ClaimId) -> bool {
        let inner = self.lock();
        inner.claims.get(&id).is_some_and(|place| !inner.leases.iter().any(|lease| lease.id == place.lease))
    }

    /// The claim is not believed in any more. What was known of it.
    pub(super) fn left(&self, id: ClaimId) -> Option<Place> {
        let mut inner = self.lock();
        let place = inner.claims.remove(&id)?;
        inner.count(place.lease, -1);
        Some(place)
    }

    /// That an id is gone is said until then.
    pub(super) fn said_gone(&self, key: Bytes, until: Instant) {
        self.lock().gone.push((key, until));
    }

    /// What has been said for long enough.
    pub(super) fn gone_for_long(&self, now: Instant) -> Vec<Bytes> {
        let mut inner = self.lock();
        let (over, still): (Vec<_>, Vec<_>) = inner.gone.drain(..).partition(|(_, until)| *until <= now);
        inner.gone = still;
        over.into_iter().map(|(key, _)| key).collect()
    }

    /// Takes note of which keys nobody listed. Those that nobody has listed for a whole life are left over from lost
    /// replies.
    pub(super) fn left_over(&self, unlisted: Vec<Bytes>, now: Instant) -> Vec<Bytes> {
        let Some(ttl) = self.life else { return Vec::new() };
        let life = ttl.max(Duration::from_secs(self.hold.unsigned_abs()));
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
            .filter(|(_, since)| now.saturating_since(**since) >= life)
            .map(|(k, _)| k.clone())
            .collect()
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn count(&mut self, lease: i64, change: isize) {
        if let Some(lease) = self.leases.iter_mut().find(|own| own.id == lease) {
            lease.claims = lease.claims.saturating_add_signed(change);
        }
    }
}

impl EtcdStore {
    /// A lease that bears one more claim, made if there is none. If there is one, nothing is awaited.
    pub(super) async fn lease(&self, session: &Session, purpose: Purpose) -> Result<i64> {
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        let _alone = session.gate.lock().await;
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        let sent = self.0.clock.now();
        if let Some(lease) = session.lease(purpose) {
            let lives = self.0.calls.keep_alive(&[lease], self.0.timeout).await.map_err(fault::of)?;
            if lives.values().any(|seconds| *seconds > 0) {
                session.renewed(lease, sent);
                return Ok(lease);
            }
            session.ended(lease);
        }
        let life = if purpose == Purpose::Hold { session.hold } else { session.wait };
        let (lease, _) = self.grant(life).await?;
        session.add(lease, purpose, sent);
        Ok(lease)
    }

    /// A lease that bears one more claim for its whole life, if there is one.
    pub(super) fn fresh(&self, session: &Session, purpose: Purpose) -> Option<i64> {
        session.lease(purpose).filter(|lease| !session.is_stale(*lease, self.0.clock.now()))
    }
}

/// What a session is called: by its first lease, as others write it.
pub(super) fn name_of(lease: i64) -> SessionId {
    SessionId::new(format!("{lease:x}"))
}

fn lease_of(id: &SessionId) -> Option<i64> {
    i64::from_str_radix(id.as_str(), 16).ok().filter(|lease| *lease > 0)
}

/// etcd has no session of this name any more.
pub(super) fn lost() -> Error {
    Error::new(ErrorKind::SessionLost, "etcd has ended the lease of this session")
        .with_remedy("to acquire it again, in a new session")
}

/// What etcd counts in.
pub(super) fn seconds(life: Duration) -> i64 {
    i64::try_from(life.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1)
}
