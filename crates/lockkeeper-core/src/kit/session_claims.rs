//! The claims of this client, by session. For a store whose server knows no sessions: the client
//! that closes a session withdraws all its claims.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::store::{
    Claim, ClaimId, ClaimKey, Live, LiveState, Opened, SessionId, SessionSpec, TOMBSTONE_MIN,
    refusal,
};
use crate::sync::lock;
use crate::time::Instant;
use crate::{LockName, Result};

/// At least this number of claims is kept without a look for dead ones.
const MIN_BEFORE_SWEEP: usize = 1024;

/// Every claim of this client that may be live, by session.
#[derive(Debug, Default)]
pub struct SessionClaims(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    all: HashMap<SessionId, Session>,
    /// The number of sessions at which the next sweep looks for unused sessions. A sweep removes
    /// the sessions that have nothing left at the server, and that this client closes no more: the
    /// close has failed, or the session of a detached lock may belong to another client.
    look_at: usize,
    /// The sessions that were closed here, and until when this is remembered.
    closed: HashMap<SessionId, Instant>,
    /// The same in the order of the closes.
    closes: VecDeque<(Instant, SessionId)>,
}

#[derive(Debug)]
struct Session {
    /// How long a claim of the session may live after its last request.
    ttl: Duration,
    /// Whether this client has opened it, and no other client may use it.
    is_own: bool,
    /// Whether this client has begun to close it.
    is_closing: bool,
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
    /// How many copies of the claim were sent and have no answer. They may still arrive.
    unanswered: usize,
    /// Whether a copy of the claim was answered, so that the server may have the claim.
    may_stand: bool,
}

impl SessionClaims {
    /// Begins a session.
    fn open(&self, id: &SessionId, spec: &SessionSpec) {
        let ttl = spec.ttl.saturating_add(spec.lock_delay).max(spec.wait_ttl);
        let mut sessions = self.lock();
        let session = sessions.all.entry(id.clone()).or_insert_with(|| Session::new(ttl));
        session.is_own = !spec.detached;
    }

    /// Begins a session, unless it was closed: here, or through another client if the session is
    /// detached, as only `is_closed` knows.
    ///
    /// # Errors
    /// `SessionLost` if the session was closed, and the error of `is_closed`.
    pub async fn opened(
        &self,
        id: &SessionId,
        spec: &SessionSpec,
        now: Instant,
        is_closed: impl Future<Output = Result<bool>>,
    ) -> Result<Opened> {
        if self.was_closed(id, now) || (spec.detached && is_closed.await?) {
            return Err(refusal::session_ended());
        }
        self.open(id, spec);
        Ok(Opened { ttl: spec.ttl })
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
        let ttl = claim.ttl.min(claim.wait_ttl);
        let live = session.claims.entry(key.id).or_insert_with(|| LiveClaim {
            name: key.name.clone(),
            ttl,
            until,
            unanswered: 0,
            may_stand: false,
        });
        (live.ttl, live.until) = (ttl, until);
        live.unanswered += 1;
    }

    /// A copy of the claim was answered.
    pub fn answered(&self, key: &ClaimKey) {
        let mut sessions = self.lock();
        let session = sessions.all.get_mut(&key.session);
        if let Some(live) = session.and_then(|session| session.claims.get_mut(&key.id)) {
            live.unanswered = live.unanswered.saturating_sub(1);
            live.may_stand = true;
        }
    }

    /// A copy of the claim was refused without an effect, or never sent. If that is so for each
    /// copy, the server has nothing to withdraw.
    pub fn refused(&self, key: &ClaimKey) {
        let mut sessions = self.lock();
        let Some(session) = sessions.all.get_mut(&key.session) else { return };
        let Some(live) = session.claims.get_mut(&key.id) else { return };
        live.unanswered = live.unanswered.saturating_sub(1);
        if live.unanswered == 0 && !live.may_stand {
            session.claims.remove(&key.id);
        }
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

    /// The claim is known to be gone, and each late copy of it is refused.
    pub fn left(&self, key: &ClaimKey) {
        if let Some(session) = self.lock().all.get_mut(&key.session) {
            session.claims.remove(&key.id);
        }
    }

    /// The server has answered that no trace of the claim is left. Another copy of the claim may
    /// still arrive.
    pub fn left_no_trace(&self, key: &ClaimKey) {
        if let Some(session) = self.lock().all.get_mut(&key.session)
            && session.claims.get(&key.id).is_some_and(|live| live.unanswered == 0)
        {
            session.claims.remove(&key.id);
        }
    }

    /// The close of a session begins. Returns every claim of the session that may be live, and
    /// those of the list: each with how long late copies of the claim are to be refused, if one of
    /// its copies has no answer.
    pub fn closing(&self, id: &SessionId, listed: &[Live]) -> Vec<(ClaimKey, Option<Duration>)> {
        let mut all = HashMap::new();
        if let Some(session) = self.lock().all.get_mut(id) {
            session.is_closing = true;
            let claim = |(claim, live): (&ClaimId, &LiveClaim)| {
                let key = ClaimKey { name: live.name.clone(), session: id.clone(), id: *claim };
                (*claim, (key, (live.unanswered > 0).then_some(TOMBSTONE_MIN)))
            };
            all.extend(session.claims.iter().map(claim));
        }
        for Live { key, state } in listed {
            let (_, tombstone) = all.entry(key.id).or_insert_with(|| (key.clone(), None));
            if *state == LiveState::InFlight {
                // A copy of the claim may still be on its way.
                *tombstone = Some(TOMBSTONE_MIN);
            }
        }
        all.into_values().collect()
    }

    /// Ends a session: forgets its claims, and remembers the end until this instant.
    pub fn close(&self, id: &SessionId, remembered_until: Instant) {
        let mut sessions = self.lock();
        sessions.all.remove(id);
        sessions.forget_the_closed(remembered_until - TOMBSTONE_MIN);
        sessions.closed.insert(id.clone(), remembered_until);
        sessions.closes.push_back((remembered_until, id.clone()));
    }

    /// Whether the session was closed here a short while ago.
    fn was_closed(&self, id: &SessionId, now: Instant) -> bool {
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
                (session.is_own && !session.is_closing) || !session.claims.is_empty()
            });
            self.look_at = self.all.len() * 2;
        }
    }

    fn forget_the_closed(&mut self, now: Instant) {
        while self.closes.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, id)) = self.closes.pop_front() else { return };
            // A later close of the session may have made the memory longer.
            if self.closed.get(&id).is_some_and(|until| *until <= now) {
                self.closed.remove(&id);
            }
        }
    }
}

impl Session {
    fn new(ttl: Duration) -> Self {
        // The last request may be processed late. Twice the life is safe, and costs only memory.
        let ttl = ttl.saturating_mul(2);
        Self {
            ttl,
            is_own: false,
            is_closing: false,
            claims: HashMap::new(),
            look_at: MIN_BEFORE_SWEEP,
        }
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

    /// The claims that a close of the session withdraws.
    fn known(claims: &SessionClaims, id: &SessionId) -> Vec<ClaimKey> {
        claims.closing(id, &[]).into_iter().map(|(key, _)| key).collect()
    }

    /// A copy without an answer may arrive after the withdrawal.
    #[test]
    fn a_claim_with_a_copy_that_has_no_answer_gets_a_tombstone() {
        let (claims, id, now) = opened();
        let claim = claim(&id);
        let tombstones = || {
            claims.closing(&id, &[]).into_iter().map(|(_, tombstone)| tombstone).collect::<Vec<_>>()
        };
        claims.claim(&claim, now);
        assert_eq!(tombstones(), [Some(TOMBSTONE_MIN)]);
        // Another copy is sent and answered.
        claims.claim(&claim, now);
        claims.answered(&claim.key);
        claims.left_no_trace(&claim.key);
        assert_eq!(tombstones(), [Some(TOMBSTONE_MIN)]);
        claims.answered(&claim.key);
        assert_eq!(tombstones(), [None]);
        claims.left_no_trace(&claim.key);
        assert_eq!(tombstones(), []);
    }

    #[test]
    fn a_claim_is_forgotten_when_each_copy_was_refused_and_not_otherwise() {
        let (claims, id, now) = opened();
        let (refused, queued, lost) = (claim(&id), claim(&id), claim(&id));
        claims.claim(&refused, now);
        claims.claim(&refused, now);
        claims.refused(&refused.key);
        assert_eq!(known(&claims, &id), std::slice::from_ref(&refused.key), "a copy has no answer");
        claims.refused(&refused.key);
        assert_eq!(known(&claims, &id), []);
        claims.claim(&queued, now);
        claims.answered(&queued.key);
        // The next look of the waiter is not sent, and its place in line stays.
        claims.claim(&queued, now);
        claims.refused(&queued.key);
        assert_eq!(known(&claims, &id), std::slice::from_ref(&queued.key));
        claims.left(&queued.key);
        // The answer to the first copy was lost.
        claims.claim(&lost, now);
        claims.claim(&lost, now);
        claims.refused(&lost.key);
        assert_eq!(known(&claims, &id), [lost.key]);
    }

    #[test]
    fn a_claim_without_a_withdrawal_is_known_until_the_session_closes() {
        let (claims, id, now) = opened();
        let (a, b) = (claim(&id), claim(&id));
        claims.claim(&a, now);
        claims.claim(&b, now);
        claims.left(&a.key);
        assert_eq!(known(&claims, &id), [b.key]);
        claims.close(&id, now + TOMBSTONE_MIN);
        assert!(claims.was_closed(&id, now) && !claims.was_closed(&id, now + TOMBSTONE_MIN));
        assert!(known(&claims, &id).is_empty());
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
        let known = known(&claims, &id);
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
        assert_eq!(known(&claims, &id), [kept.key]);
    }

    /// A fixed lease has a session of its own. If the server is away when the engine closes the
    /// session, nobody closes it again.
    #[test]
    fn an_own_session_whose_close_has_failed_is_forgotten_after_its_claims() {
        let (claims, id, mut now) = opened();
        for _ in 0..4 * MIN_BEFORE_SWEEP {
            let other = SessionId::random();
            claims.open(&other, &SessionSpec::new(TTL, Duration::ZERO));
            let last = claim(&other);
            claims.claim(&last, now);
            // The server did not answer.
            assert_eq!(known(&claims, &other), [last.key]);
            now = now + TTL * 3;
        }
        let left = claims.lock().all.len();
        assert!(left <= MIN_BEFORE_SWEEP + 1, "{left} sessions");
        assert!(claims.is_own(&id));
    }

    /// All claims of a client wait for the mutex meanwhile.
    #[test]
    fn the_cost_of_a_close_does_not_grow_with_the_closes_before() {
        const MANY: u32 = 20_000;
        let (claims, _, now) = opened();
        let closes = |count: u32| {
            let began = std::time::Instant::now();
            (0..count).for_each(|_| claims.close(&SessionId::random(), now + TOMBSTONE_MIN));
            began.elapsed() / count
        };
        // The shortest of some times does not contain the pauses of a busy machine.
        let shortest = || (0..10).map(|_| closes(40)).min().unwrap();
        let first = shortest();
        closes(MANY);
        let last = shortest();
        assert!(last < 5 * first, "{last:?} each with {MANY} remembered, {first:?} with 400");
    }

    #[test]
    fn the_end_of_a_session_is_forgotten_when_its_time_is_over() {
        let (claims, id, now) = opened();
        claims.close(&id, now + TOMBSTONE_MIN);
        // A second close of the session makes the memory longer.
        claims.close(&id, now + TOMBSTONE_MIN + TTL);
        let later = now + TOMBSTONE_MIN + TTL / 2;
        claims.close(&SessionId::random(), later + TOMBSTONE_MIN);
        assert!(claims.was_closed(&id, later));
        claims.close(&SessionId::random(), later + TTL + TOMBSTONE_MIN);
        assert_eq!(claims.lock().closed.len(), 2);
    }
}
