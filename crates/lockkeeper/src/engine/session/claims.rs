//! The claims of a session: the live claims with the times of their renewals, and the claims in
//! their lock-delay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::Hold;
use super::super::lock::lock;
use super::super::schedule::ClaimSchedule;
use crate::store::ClaimId;
use crate::time::Instant;

#[derive(Debug)]
pub(in crate::engine) struct SessionClaims {
    /// Set under the mutex of the claims: no claim joins a session that has ended.
    over: AtomicBool,
    /// When a claim last joined or left.
    used: AtomicU64,
    claims: Mutex<Claims>,
}

#[derive(Debug, Default)]
struct Claims {
    live: ClaimSchedule<Arc<Hold>>,
    /// Lost claims that keep others out until this instant.
    in_lock_delay: Vec<(Arc<Hold>, Instant)>,
}

impl SessionClaims {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            over: AtomicBool::new(false),
            used: AtomicU64::new(now.as_nanos()),
            claims: Mutex::default(),
        }
    }

    /// The session is used at this moment.
    pub(in crate::engine) fn use_now(&self, now: Instant) {
        self.used.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// Adds a claim. `false` if the session has ended: the claim needs another session.
    pub(in crate::engine) fn add(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        self.use_now(now);
        let mut claims = lock(&self.claims);
        let open = !self.is_over();
        if open {
            claims.live.insert(hold.key.id, Arc::clone(hold));
        }
        open
    }

    /// Removes a live claim, or keeps it in its lock-delay until an instant. Returns whether it was
    /// live.
    pub(in crate::engine) fn take(
        &self,
        hold: &Arc<Hold>,
        now: Instant,
        delay_ends: Option<Instant>,
    ) -> bool {
        self.use_now(now);
        let mut claims = lock(&self.claims);
        let found = claims.live.remove(hold.key.id);
        if let Some(until) = delay_ends.filter(|_| found) {
            claims.in_lock_delay.push((Arc::clone(hold), until));
        }
        found
    }

    /// Keeps a claim, which was removed already, in its lock-delay. A session that has ended keeps
    /// none: no timer looks at it any more.
    pub(in crate::engine) fn keep_in_lock_delay(&self, hold: &Arc<Hold>, until: Instant) {
        let mut claims = lock(&self.claims);
        if !self.is_over() {
            claims.in_lock_delay.push((Arc::clone(hold), until));
        }
    }

    /// Removes a claim, live or in its lock-delay.
    pub(in crate::engine) fn forget(&self, hold: &Arc<Hold>, now: Instant) {
        self.use_now(now);
        let mut claims = lock(&self.claims);
        claims.live.remove(hold.key.id);
        claims.in_lock_delay.retain(|(in_lock_delay, _)| in_lock_delay.key.id != hold.key.id);
    }

    /// Forgets all claims of a session that has ended: the session and the claims keep each other
    /// alive.
    pub(in crate::engine) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.claims));
        // No later report of the store would reach these claims.
        all.in_lock_delay.iter().for_each(|(hold, _)| hold.give_away());
    }

    /// Lists all claims, with the claims in their lock-delay. No claim joins or leaves while the
    /// result lives.
    pub(in crate::engine) fn list(&self, all: &mut Vec<Arc<Hold>>) -> impl Drop + '_ {
        let claims = lock(&self.claims);
        all.clear();
        all.extend(
            claims
                .live
                .all()
                .chain(claims.in_lock_delay.iter().map(|(hold, _)| hold))
                .map(Arc::clone),
        );
        claims
    }

    pub(in crate::engine) fn live(&self) -> Vec<Arc<Hold>> {
        lock(&self.claims).live.all().map(Arc::clone).collect()
    }

    /// The first `count` live claims after `id`.
    pub(in crate::engine) fn live_after(
        &self,
        id: Option<ClaimId>,
        count: usize,
    ) -> Vec<Arc<Hold>> {
        lock(&self.claims).live.after(id, count)
    }

    pub(in crate::engine) fn find(&self, id: ClaimId) -> Option<Arc<Hold>> {
        lock(&self.claims).live.get(id).map(Arc::clone)
    }

    /// Finds a live claim, or a claim in its lock-delay.
    pub(in crate::engine) fn find_even_lost(&self, id: ClaimId) -> Option<Arc<Hold>> {
        let claims = lock(&self.claims);
        let mut lost = claims.in_lock_delay.iter().map(|(hold, _)| hold);
        claims.live.get(id).or_else(|| lost.find(|hold| hold.key.id == id)).map(Arc::clone)
    }

    /// Sets the time of a live claim's next renewal.
    pub(in crate::engine) fn set_due(&self, hold: &Hold, at: Option<Instant>) {
        lock(&self.claims).live.set_due(hold.key.id, at);
    }

    /// Sets the time to the result of a function that runs under the mutex: a claim that is brought
    /// forward meanwhile stays so.
    pub(in crate::engine) fn set_due_to(
        &self,
        hold: &Hold,
        at: impl FnOnce() -> Instant,
    ) -> Instant {
        let mut claims = lock(&self.claims);
        let at = at();
        claims.live.set_due(hold.key.id, Some(at));
        at
    }

    /// Makes a live claim due no later than `at`.
    pub(in crate::engine) fn bring_forward(&self, hold: &Hold, at: Instant) {
        lock(&self.claims).live.bring_forward(hold.key.id, at);
    }

    /// The claims that are due at `by`, the earliest first.
    pub(in crate::engine) fn due_by(&self, by: Instant) -> Vec<Arc<Hold>> {
        lock(&self.claims).live.due_by(by)
    }

    /// When the next claim is due.
    pub(in crate::engine) fn next_due(&self) -> Option<Instant> {
        lock(&self.claims).live.next_due()
    }

    /// Takes the claims whose lock-delay is over.
    pub(in crate::engine) fn take_over_delay(&self, now: Instant) -> Vec<Arc<Hold>> {
        let over = lock(&self.claims)
            .in_lock_delay
            .extract_if(.., |(_, until)| *until <= now)
            .collect::<Vec<_>>();
        over.into_iter().map(|(hold, _)| hold).collect()
    }

    pub(in crate::engine) fn in_lock_delay(&self) -> Vec<Arc<Hold>> {
        lock(&self.claims).in_lock_delay.iter().map(|(hold, _)| Arc::clone(hold)).collect()
    }

    /// When the lock-delay of a claim ends, if the claim is in one.
    pub(in crate::engine) fn lock_delay_of(&self, hold: &Hold) -> Option<Instant> {
        let claims = lock(&self.claims);
        let found = claims
            .in_lock_delay
            .iter()
            .find(|(in_lock_delay, _)| in_lock_delay.key.id == hold.key.id);
        found.map(|(_, until)| *until)
    }

    /// When the first lock-delay ends.
    pub(in crate::engine) fn end_of_lock_delay(&self) -> Option<Instant> {
        lock(&self.claims).in_lock_delay.iter().map(|(_, until)| *until).min()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends the session: no claim joins from now on. Returns whether it had not ended before.
    pub(super) fn end(&self) -> bool {
        let _claims = lock(&self.claims);
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// Ends the session if it has no claim, and had none for `long`; returns whether it did.
    pub(super) fn end_if_unused(&self, now: Instant, long: Duration) -> bool {
        let claims = lock(&self.claims);
        let used = Instant::from_nanos(self.used.load(Ordering::Acquire));
        let unused =
            claims.live.is_empty() && claims.in_lock_delay.is_empty() && now >= used + long;
        // A session that has ended may belong to another process: it may have been detached.
        let ends = unused && !self.is_over();
        if ends {
            self.over.store(true, Ordering::Release);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::*;
    use crate::store::{ClaimKey, SessionId, SessionSpec};
    use crate::time::Clock;

    fn session(clock: &Clock) -> Arc<Session> {
        let (spec, ttl) =
            (SessionSpec::new(Duration::from_secs(30), Duration::ZERO), Duration::from_secs(30));
        Arc::new(Session::new(spec, SessionId::random(), ttl, None, clock.now()))
    }

    fn hold(session: &Arc<Session>, clock: &Clock) -> Arc<Hold> {
        let key = ClaimKey {
            name: "n".parse().unwrap(),
            session: session.id.clone(),
            id: ClaimId::random(),
        };
        Arc::new(Hold::new(key, Arc::clone(session), clock.clone()))
    }

    /// A round of renewals begins between the choice of the time and its setting.
    #[test]
    fn a_claim_that_is_brought_forward_while_its_time_is_found_out_is_due_then() {
        let clock = Clock::boot();
        let (session, now) = (session(&clock), clock.now());
        let hold = hold(&session, &clock);
        assert!(session.claims.add(&hold, now));
        std::thread::scope(|scope| {
            session.claims.set_due_to(&hold, || {
                let round = scope.spawn(|| session.claims.bring_forward(&hold, now));
                // The other thread has finished, or waits for the mutex.
                while !round.is_finished() && session.claims.claims.try_lock().is_ok() {
                    std::thread::yield_now();
                }
                now + Duration::from_secs(10)
            });
        });
        assert_eq!(session.claims.next_due(), Some(now));
    }

    #[test]
    fn no_claim_joins_or_is_kept_in_a_session_that_is_over() {
        let clock = Clock::boot();
        let session = session(&clock);
        let hold = || hold(&session, &clock);
        assert!(session.claims.add(&hold(), clock.now()));
        assert!(session.end());
        assert!(!session.claims.add(&hold(), clock.now()));
        assert_eq!(session.claims.live().len(), 1);
        // A kept claim would keep the session alive, and the session the claim.
        session.claims.keep_in_lock_delay(&hold(), clock.now());
        assert_eq!(session.claims.in_lock_delay().len(), 0);
    }
}
