//! Which leases a session has, and which of them a claim may be put on. `lease_requests` makes,
//! renews and revokes them.
//!
//! A session has leases of two ttls: one for claims that wait, so that a dead waiter costs seconds,
//! and one for claims that hold. Where both ttls are the same, one lease is for both. When a lease
//! is full, another one is made.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lockkeeper_core::sync::lock;

use super::seconds;
use crate::layout::{Lines, SessionPart};
use crate::store::{SessionId, SessionSpec};
use crate::time::Instant;
use crate::wire::messages::KeyValue;
use crate::{Error, ErrorKind, Result};

/// With many more keys on one lease, each put takes longer, and the revocation of the lease stops
/// other requests.
pub(super) const PER_LEASE: usize = 500;

/// How much longer the lease of waiters lasts than a waiter believes. The last renewal of the lease
/// may be so old when a claim joins it: the claim is on the lease for a waiter's whole ttl from the
/// moment on at which the claim was requested.
const SLACK: Duration = Duration::from_secs(1);

/// A lease that was empty and unchosen for so long gets no more claims. After the same time again
/// the lease is revoked: a claim that had chosen the lease before has arrived on it by then.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Hold,
    Wait,
}

/// The leases of a session.
#[derive(Debug)]
pub(crate) struct Leases {
    /// For how many seconds etcd keeps a lease of holders without a renewal.
    hold: i64,
    /// For how many seconds etcd keeps a lease of waiters without a renewal.
    wait: i64,
    /// The session is detached: other clients may renew and choose its leases.
    is_shared: bool,
    /// The first lease names the session.
    all: Mutex<Vec<Lease>>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    purpose: Purpose,
    claims: usize,
    /// When the last renewal was sent.
    renewed: Instant,
    /// For how many seconds the lease lives from that renewal on; 0 before that is known.
    ttl: i64,
    /// This client has renewed the lease since the lease is in this list. A renewal of the session
    /// that did not include the lease proves nothing about the lease, but a claim on the lease
    /// would believe in that renewal.
    ready: bool,
    /// Since when the lease has no claims and no claim has chosen it, as far as was seen.
    empty: Option<Instant>,
    /// Since when the lease gets no more claims: it is about to be revoked.
    retired: Option<Instant>,
}

impl Leases {
    /// The first lease of a session, which was requested or renewed by a request sent then.
    pub(super) fn new(first: i64, spec: &SessionSpec, sent: Instant) -> Self {
        let leases = Self {
            hold: seconds(spec.ttl + spec.lock_delay),
            wait: seconds(spec.wait_ttl + SLACK),
            is_shared: spec.detached,
            all: Mutex::default(),
        };
        leases.add(first, Purpose::Hold, sent);
        leases.renewed(first, sent, leases.hold);
        leases
    }

    /// For how many seconds etcd keeps a lease without a renewal.
    pub(crate) fn ttl(&self, purpose: Purpose) -> i64 {
        match purpose {
            Purpose::Hold => self.hold,
            Purpose::Wait => self.wait,
        }
    }

    /// How long a holder's lease lives without a renewal.
    pub(super) fn whole(&self) -> Duration {
        Duration::from_secs(self.hold.unsigned_abs())
    }

    /// Whether waiters and holders are on the same lease.
    pub(crate) fn have_one_ttl(&self) -> bool {
        self.hold <= self.wait
    }

    /// A lease with room for one more claim.
    pub(crate) fn choose(&self, purpose: Purpose) -> Option<i64> {
        let purpose = if self.have_one_ttl() { Purpose::Hold } else { purpose };
        let mut all = self.lock();
        let has_room = |lease: &Lease| lease.claims < PER_LEASE;
        let bears = |lease: &&mut Lease| {
            lease.ready && lease.retired.is_none() && lease.purpose == purpose && has_room(lease)
        };
        // The first lease with room, so that the last leases become empty after a rush.
        let lease = all.iter_mut().find(bears)?;
        // A claim on its way to the lease is counted only when it is there.
        lease.empty = None;
        Some(lease.id)
    }

    /// The leases with room for one more claim, whether this client has renewed them or not.
    pub(super) fn with_room(&self, purpose: Purpose) -> Vec<i64> {
        let purpose = if self.have_one_ttl() { Purpose::Hold } else { purpose };
        let bears = |lease: &&Lease| lease.purpose == purpose && lease.claims < PER_LEASE;
        self.lock().iter().filter(bears).map(|lease| lease.id).collect()
    }

    /// Adds a lease, unless the lease is known: a renewal of this client may have read a lease that
    /// this client makes, before the answer came.
    pub(crate) fn add(&self, id: i64, purpose: Purpose, renewed: Instant) {
        let mut all = self.lock();
        if all.iter().all(|lease| lease.id != id) {
            all.push(Lease {
                id,
                purpose,
                claims: 0,
                renewed,
                ttl: 0,
                ready: false,
                empty: None,
                retired: None,
            });
        }
    }

    /// Adds the leases that the keys of a detached session show. A known lease stays even if no key
    /// shows it: the lease may have been made since.
    pub(super) fn learn<'a>(
        &self,
        lines: &Lines,
        id: &SessionId,
        found: impl IntoIterator<Item = &'a KeyValue>,
        now: Instant,
    ) {
        for kv in found {
            let Some(SessionPart::Lease { id: lease, holds }) = lines.part_of_session(id, &kv.key)
            else {
                continue;
            };
            // A key on another lease than its name says is not of this session's clients.
            if kv.lease == lease {
                self.add(lease, if holds { Purpose::Hold } else { Purpose::Wait }, now);
            }
        }
    }

    /// Whether a lease with so many seconds left was renewed. A lease that was not renewed has
    /// ended.
    ///
    /// # Errors
    /// `Unavailable` for less than the ttl of the lease. A member that has renewed the lease
    /// reports the whole ttl; something between this client and etcd has answered from an old
    /// state.
    pub(crate) fn is_renewed(&self, id: i64, seconds: i64) -> Result<bool> {
        let ttl = self.purpose(id).map_or(1, |purpose| self.ttl(purpose));
        if seconds > 0 && seconds < ttl {
            let problem = format!(
                "a lease of {ttl} s was renewed for {seconds} s: something else than etcd has answered"
            );
            return Err(Error::new(ErrorKind::Unavailable, problem)
                .with_remedy("the members of etcd themselves in the URL, and not a proxy"));
        }
        Ok(seconds > 0)
    }

    /// Notes a renewal that etcd has acknowledged for so many seconds.
    pub(crate) fn renewed(&self, id: i64, sent: Instant, seconds: i64) {
        if let Some(lease) = self.lock().iter_mut().find(|lease| lease.id == id) {
            (lease.renewed, lease.ttl) = (lease.renewed.max(sent), seconds);
            lease.ready = true;
        }
    }

    /// When the last renewal of this lease of holders was sent, and how long the lease lives from
    /// then on. A renewal of another client may be unknown here.
    pub(crate) fn renewal_of(&self, lease: i64) -> (Instant, Duration) {
        let all = self.lock();
        let lease = all.iter().find(|own| own.id == lease);
        let ttl = |seconds: i64| Duration::from_secs(seconds.max(self.hold).unsigned_abs());
        lease.map_or((Instant::from_nanos(0), Duration::ZERO), |lease| {
            (lease.renewed, ttl(lease.ttl))
        })
    }

    /// Forgets a lease of waiters that has ended: no client renews it while no claim waits.
    pub(crate) fn ended(&self, id: i64) {
        self.lock().retain(|lease| lease.id != id || lease.purpose == Purpose::Hold);
    }

    /// Every lease that may still live. etcd answers the renewal of an expired lease only when etcd
    /// has removed the lease, which would delay the renewals of the other leases. A lease of a
    /// detached session stays, since another client may have renewed it.
    pub(crate) fn living(&self, now: Instant) -> Vec<i64> {
        let wait = Duration::from_secs(self.wait.unsigned_abs());
        let mut all = self.lock();
        let may_live = |lease: &Lease| {
            self.is_shared
                || lease.purpose == Purpose::Hold
                || now.saturating_since(lease.renewed) < wait
        };
        all.retain(may_live);
        all.iter().map(|lease| lease.id).collect()
    }

    /// Whether all leases have ended, by a wide margin.
    pub(super) fn are_over(&self, now: Instant) -> bool {
        let ttl = Duration::from_secs(self.hold.max(self.wait).unsigned_abs());
        let is_over =
            |lease: &Lease| now.saturating_since(lease.renewed) > ttl * 3 + Duration::from_secs(60);
        self.lock().iter().all(is_over)
    }

    /// Whether a lease of waiters may end before a claim that joins it now stops believing that it
    /// waits.
    pub(crate) fn is_stale(&self, id: i64, now: Instant) -> bool {
        let all = self.lock();
        let lease = all.iter().find(|lease| lease.id == id && lease.purpose == Purpose::Wait);
        lease.is_some_and(|lease| !lease.ready || now.saturating_since(lease.renewed) > SLACK)
    }

    /// Every lease, the first one first.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.lock().iter().map(|lease| lease.id).collect()
    }

    /// What this lease is for, if it is a lease of this session.
    pub(crate) fn purpose(&self, lease: i64) -> Option<Purpose> {
        self.lock().iter().find(|own| own.id == lease).map(|own| own.purpose)
    }

    /// Whether a holder may be on this lease: the client has renewed the lease since it knows the
    /// lease. A lease that another client has made may end before the deadline that the last
    /// renewal of this client has given the holder.
    pub(crate) fn bears_holders(&self, lease: i64) -> bool {
        let is_ready = |own: &Lease| own.id == lease && own.purpose == Purpose::Hold && own.ready;
        self.lock().iter().any(is_ready)
    }

    /// Counts claims that are on their way to this lease, until the answer is dropped.
    pub(crate) fn expects(&self, lease: i64, claims: usize) -> Expected<'_> {
        let claims = isize::try_from(claims).unwrap_or(isize::MAX);
        self.count(&[(lease, claims)]);
        Expected { leases: self, lease, claims }
    }

    /// A claim is on another lease now, on its first lease, or on none.
    pub(super) fn moved(&self, from: Option<i64>, to: Option<i64>) {
        let changes = to.map(|to| (to, 1)).into_iter().chain(from.map(|from| (from, -1)));
        self.count(&changes.collect::<Vec<_>>());
    }

    fn count(&self, changes: &[(i64, isize)]) {
        let mut all = self.lock();
        for (lease, change) in changes {
            if let Some(lease) = all.iter_mut().find(|own| own.id == *lease) {
                lease.claims = lease.claims.saturating_add_signed(*change);
            }
        }
    }

    /// Removes the leases that are not needed any more, and returns them. `used` are the leases
    /// with keys. The first lease stays: it names the session.
    pub(crate) fn to_revoke(&self, used: &HashSet<i64>, now: Instant) -> Vec<i64> {
        if self.is_shared {
            // Another client may have chosen the lease.
            return Vec::new();
        }
        let mut all = self.lock();
        let mut unneeded = Vec::new();
        let has_passed = |since: Instant| now.saturating_since(since) >= IDLE;
        for lease in all.iter_mut().skip(1) {
            if lease.claims > 0 || used.contains(&lease.id) {
                (lease.empty, lease.retired) = (None, None);
                continue;
            }
            if has_passed(*lease.empty.get_or_insert(now))
                && has_passed(*lease.retired.get_or_insert(now))
            {
                unneeded.push(lease.id);
            }
        }
        all.retain(|lease| !unneeded.contains(&lease.id));
        unneeded
    }

    /// How many claims the first lease has.
    #[cfg(test)]
    pub(super) fn claims_on_the_first(&self) -> usize {
        self.lock()[0].claims
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Lease>> {
        lock(&self.all)
    }
}

/// Claims that are on their way to a lease. They take room on the lease, even if no call awaits
/// their arrival any more.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    leases: &'a Leases,
    lease: i64,
    claims: isize,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.leases.count(&[(self.lease, -self.claims)]);
    }
}
