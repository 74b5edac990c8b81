//! The claims of this client, by session. For a store whose server knows no sessions: the client
//! that closes a session withdraws all its claims.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::LockName;
use crate::store::{Claim, ClaimId, ClaimKey, SessionId, SessionSpec, TOMBSTONE_MIN};
use crate::sync::lock;
use crate::time::Instant;

/// At least this number of claims is kept without a look for dead ones.
const MIN_BEFORE_SWEEP: usize = 1024;

/// Every claim of this client that may be live, by session.
#[derive(Debug, Default)]
pub struct SessionClaims(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    all: HashMap<SessionId, Session>,
    /// The number of sessions at which the next sweep looks for unused sessions. A sweep removes
    /// the sessions that have nothing left at the server and may belong to another client: this
    /// client does not close the session of a detached lock.
    look_at: usize,
    /// The sessions that were closed here, and until when this is remembered.
    closed: HashMap<SessionId, Instant>,
}

#[derive(Debug)]
struct Session {
    /// How long a claim of the session may live after its last request.
    ttl: Duration,
    /// Whether this client has opened it, and no other client may use it.
    is_own: bool,
    claims: HashMap<ClaimId, LiveClaim>,
    /// The number of claims at which the next sweep looks for dead claims.
    look_at: usize,
}

#[derive(Debug)]
struct LiveClaim {
    name: LockName,
    /// The shorter life of the claim: that of a holder, or that of a waiter.
    ttl: Duration,
    /// From this instant on the server can have nothing left of the claim.
    until: Instant,
}

impl SessionClaims {
    /// Begins a session.
    pub fn open(&self, id: &SessionId, spec: &SessionSpec) {
        let ttl = spec.ttl.saturating_add(spec.lock_delay).max(spec.wait_ttl);
        let mut sessions = self.lock();
        let session = sessions.all.entry(id.clone()).or_insert_with(|| Session::new(ttl));
        session.is_own = !spec.detached;
    }

    /// A claim is about to be sent.
    pub fn claim(&self, claim: &Claim, now: Instant) {
        let key = &claim.key;
        let mut sessions = self.lock();
        sessions.forget_the_dead(now);
        let ttl = claim.ttl.saturating_add(claim.lock_delay).max(claim.wait_ttl);
        let session = sessions.all.entry(key.session.clone()).or_insert_with(|| Session::new(ttl));
        session.forget_the_dead(now);
        let until = now + session.ttl;
        session.claims.insert(
            key.id,
            LiveClaim { name: key.name.clone(), ttl: claim.ttl.min(claim.wait_ttl), until },
        );
    }

    /// These claims are about to be renewed. Returns the shortest of their lives, as far as they
    /// are known.
    pub fn renew<'a>(
        &self,
        id: &SessionId,
        claims: impl Iterator<Item = &'a ClaimId>,
        now: Instant,
    ) -> Option<Duration> {
        let mut sessions = self.lock();
        let Session { ttl, claims: entries, .. } = sessions.all.get_mut(id)?;
        let mut shortest = None;
        for claim in claims {
            if let Some(entry) = entries.get_mut(claim) {
                entry.until = now + *ttl;
                shortest =
                    Some(shortest.map_or(entry.ttl, |shortest: Duration| shortest.min(entry.ttl)));
            }
        }
        shortest
    }

    /// The claim is known to be gone.
    pub fn left(&self, key: &ClaimKey) {
        if let Some(session) = self.lock().all.get_mut(&key.session) {
            session.claims.remove(&key.id);
        }
    }

    /// Every claim of a session that may be live.
    pub fn of(&self, id: &SessionId) -> Vec<ClaimKey> {
        let lock = self.lock();
        let Some(session) = lock.all.get(id) else { return Vec::new() };
        let key = |(claim, entry): (&ClaimId, &LiveClaim)| ClaimKey {
            name: entry.name.clone(),
            session: id.clone(),
            id: *claim,
        };
        session.claims.iter().map(key).collect()
    }

    /// Ends a session: forgets its claims, and remembers the end until this instant.
    pub fn close(&self, id: &SessionId, remembered_until: Instant) {
        let mut sessions = self.lock();
        sessions.all.remove(id);
        let now = remembered_until - TOMBSTONE_MIN;
        sessions.closed.retain(|_, until| *until > now);
        sessions.closed.insert(id.clone(), remembered_until);
    }

    /// Whether the session was closed here a short while ago.
    pub fn was_closed(&self, id: &SessionId, now: Instant) -> bool {
        self.lock().closed.get(id).is_some_and(|until| *until > now)
    }

    /// Whether the session belongs to this client, as every session does that is not detached.
    pub fn is_own(&self, id: &SessionId) -> bool {
        self.lock().all.get(id).is_some_and(|session| session.is_own)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.0)
    }
}

impl Sessions {
    fn forget_the_dead(&mut self, now: Instant) {
        if self.all.len() >= self.look_at.max(MIN_BEFORE_SWEEP) {
            self.all.retain(|_, session| {
                session.claims.retain(|_, entry| entry.until > now);
                session.is_own || !session.claims.is_empty()
            });
            self.look_at = self.all.len() * 2;
        }
    }
}

impl Session {
    fn new(ttl: Duration) -> Self {
        // The last request may be processed late. Twice the life is safe, and costs only memory.
        let ttl = ttl.saturating_mul(2);
        Self { ttl, is_own: false, claims: HashMap::new(), look_at: MIN_BEFORE_SWEEP }
    }

    /// Forgets the dead claims: lost claims are not withdrawn.
    fn forget_the_dead(&mut self, now: Instant) {
        if self.claims.len() >= self.look_at {
            self.claims.retain(|_, entry| entry.until > now);
            self.look_at = MIN_BEFORE_SWEEP.max(self.claims.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MAX, Meta};
    use crate::time::Clock;

    const TTL: Duration = Duration::from_secs(30);

    fn claim(session: &SessionId) -> Claim {
        Claim {
            key: ClaimKey {
                name: "stock".parse().unwrap(),
                session: session.clone(),
                id: ClaimId::random(),
            },
            ttl: TTL,
            wait_ttl: TTL,
            lock_delay: Duration::ZERO,
            weight: MAX,
            capacity: MAX,
            queue: true,
            resend: false,
            replaces: None,
            max_waiters: 1000,
            meta: Meta::default(),
        }
    }

    fn opened() -> (SessionClaims, SessionId, Instant) {
        let (claims, id) = (SessionClaims::default(), SessionId::random());
        claims.open(&id, &SessionSpec::new(TTL, Duration::ZERO));
        (claims, id, Clock::boot().now())
    }

    #[test]
    fn a_claim_without_a_withdrawal_is_known_until_the_session_closes() {
        let (claims, id, now) = opened();
        let (a, b) = (claim(&id), claim(&id));
        claims.claim(&a, now);
        claims.claim(&b, now);
        claims.left(&a.key);
        assert_eq!(claims.of(&id), [b.key]);
        claims.close(&id, now + TOMBSTONE_MIN);
        assert!(claims.was_closed(&id, now) && !claims.was_closed(&id, now + TOMBSTONE_MIN));
        assert!(claims.of(&id).is_empty());
    }

    #[test]
    fn unrenewed_claims_are_forgotten_in_the_end_and_renewed_ones_are_kept() {
        let (claims, id, now) = opened();
        let kept = claim(&id);
        claims.claim(&kept, now);
        for _ in 0..MIN_BEFORE_SWEEP {
            claims.claim(&claim(&id), now);
        }
        let later = now + TTL * 3;
        let unknown = ClaimId::random();
        assert_eq!(claims.renew(&id, [&unknown, &kept.key.id].into_iter(), later), Some(TTL));
        assert_eq!(claims.renew(&id, std::iter::once(&unknown), later), None);
        for _ in 0..2 * MIN_BEFORE_SWEEP {
            claims.claim(&claim(&id), later);
        }
        let known = claims.of(&id);
        assert!(
            known.contains(&kept.key) && known.len() <= 2 * MIN_BEFORE_SWEEP + 1,
            "{}",
            known.len()
        );
    }

    /// A detached lock has a session of its own, which this client does not close.
    #[test]
    fn sessions_with_expired_claims_are_forgotten_and_a_new_claim_is_known() {
        let (claims, id, mut now) = opened();
        for _ in 0..4 * MIN_BEFORE_SWEEP {
            let other = SessionId::random();
            claims.open(
                &other,
                &SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) },
            );
            claims.claim(&claim(&other), now);
            now = now + TTL * 3;
        }
        assert!(claims.lock().all.len() <= MIN_BEFORE_SWEEP + 1, "{}", claims.lock().all.len());
        // The session has no claim, and is open all the same.
        assert!(claims.is_own(&id));
        let kept = claim(&id);
        claims.claim(&kept, now);
        assert_eq!(claims.of(&id), [kept.key]);
    }
}
