//! A session: the claims of one ttl and lock-delay, and what proves that they live.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::danger::Danger;
use super::hold::{Hold, Stage};
use super::schedule::ClaimSchedule;
use crate::store::{Capabilities, ClaimId, Expiry, SessionId, SessionSpec};
use crate::time::{Instant, believed};

/// The state of a keeper's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// The store acknowledges the renewals.
    Valid,
    /// Renewals fail, and the leases have not expired yet. Or the connection to the store is a new one, and the store has
    /// not yet acknowledged every held lock on it.
    Jeopardy,
    /// A lease has expired without a renewal, or the store has forgotten the session. The locks of the session are lost.
    /// New attempts get a new session.
    Expired,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) spec: SessionSpec,
    pub(crate) id: SessionId,
    /// The ttl as granted.
    pub(crate) ttl: Duration,
    /// How long a waiter lives without a renewal: never longer than a holder.
    pub(crate) wait_ttl: Duration,
    /// How many acknowledged renewals back the proof of life lies, on stores where life belongs to the session.
    proof_lag: Option<u8>,
    /// Of a fixed lease: one claim, renewed while it waits and once at the grant.
    fixed: AtomicBool,
    /// Opened by another process, and to outlive this one.
    adopted: AtomicBool,
    proofs: Mutex<VecDeque<Instant>>,
    holds: Mutex<ClaimSchedule>,
    /// Lost, but not to be given away before this instant.
    in_lock_delay: Mutex<Vec<(Arc<Hold>, Instant)>>,
    server_clock: Mutex<Option<(Duration, Instant)>>,
    pub(super) danger: Danger,
    over: AtomicBool,
    /// The process that has it.
    pub(super) pid: u32,
    due: AtomicU64,
    used: AtomicU64,
    pub(crate) wake: Notify,
    /// When the watchdog will look by itself.
    pub(crate) planned: AtomicU64,
}

impl Session {
    /// A session that was opened by a request sent at `sent`.
    pub(crate) fn new(spec: SessionSpec, id: SessionId, ttl: Duration, proof_lag: Option<u8>, sent: Instant) -> Self {
        let lag = usize::from(proof_lag.unwrap_or(0));
        Self {
            wait_ttl: spec.wait_ttl.min(ttl),
            spec,
            id,
            ttl,
            proof_lag,
            fixed: AtomicBool::new(false),
            adopted: AtomicBool::new(false),
            proofs: Mutex::new(std::iter::repeat_n(sent, lag + 1).collect()),
            holds: Mutex::default(),
            in_lock_delay: Mutex::default(),
            server_clock: Mutex::default(),
            danger: Danger::default(),
            over: AtomicBool::new(false),
            pid: std::process::id(),
            due: AtomicU64::new((sent + ttl / 3).as_nanos()),
            used: AtomicU64::new(sent.as_nanos()),
            wake: Notify::new(),
            planned: AtomicU64::new(0),
        }
    }

    /// A session that somebody else has opened: nothing proves that it lives before it is renewed.
    pub(super) fn adopted(spec: SessionSpec, id: SessionId, proof_lag: Option<u8>) -> Self {
        let ttl = spec.ttl;
        let session = Self::new(spec, id, ttl, proof_lag, Instant::from_nanos(0));
        session.fix();
        session.adopted.store(true, Ordering::Release);
        session
    }

    /// Whether it is not ours to close.
    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    /// Whether claims live as long as the session, not each by itself.
    pub(crate) fn expires_as_one(&self) -> bool {
        self.proof_lag.is_some()
    }

    pub(crate) fn fix(&self) {
        self.fixed.store(true, Ordering::Release);
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed.load(Ordering::Acquire)
    }

    /// The deadline of a claim that a request sent at `sent` found granted. If claims live with their session, only a renewal
    /// that was proven before `sent` counts: a later renewal need not have found the claim.
    pub(crate) fn proven_until(&self, sent: Instant) -> Instant {
        let proven = if self.expires_as_one() { lock(&self.proofs).front().copied() } else { None };
        proven.map_or(sent, |proven| proven.min(sent)) + believed(self.ttl)
    }

    /// Until when a claim may be believed in that was found waiting by a request sent at `sent`, or whose first
    /// request was sent then: a waiter's life, and where life belongs to the session no longer than that.
    pub(crate) fn waits_until(&self, sent: Instant) -> Instant {
        self.proven_until(sent).min(sent + believed(self.wait_ttl))
    }

    /// A renewal sent at `sent` was acknowledged.
    pub(crate) fn prove(&self, sent: Instant) {
        let keep = usize::from(self.proof_lag.unwrap_or(0)) + 1;
        let mut proofs = lock(&self.proofs);
        // Renewals may be acknowledged out of order.
        let at = proofs.partition_point(|s| *s <= sent);
        proofs.insert(at, sent);
        while proofs.len() > keep {
            proofs.pop_front();
        }
    }

    /// It is in use at this moment.
    pub(super) fn use_now(&self, now: Instant) {
        self.used.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// `false` when the session is over: the claim has to go to another one.
    pub(crate) fn add(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        self.use_now(now);
        let mut holds = lock(&self.holds);
        let open = !self.is_over();
        if open {
            holds.insert(hold);
        }
        open
    }

    /// Whether it was still there.
    pub(crate) fn remove(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        self.take(hold, now, None)
    }

    /// Removes a claim, or keeps it in its lock-delay until an instant. Whether it was still there.
    pub(crate) fn take(&self, hold: &Arc<Hold>, now: Instant, delay_ends: Option<Instant>) -> bool {
        self.use_now(now);
        let mut holds = lock(&self.holds);
        let found = holds.remove(hold);
        if let Some(until) = delay_ends.filter(|_| found) {
            // Under the lock of the others: no list of the claims finds it in neither place.
            lock(&self.in_lock_delay).push((Arc::clone(hold), until));
        }
        found
    }

    /// Keeps a claim in its lock-delay that was removed already. A session that is over keeps none: nobody looks any
    /// more.
    pub(crate) fn keep_in_lock_delay(&self, hold: &Arc<Hold>, until: Instant) {
        let _holds = lock(&self.holds);
        let mut in_lock_delay = lock(&self.in_lock_delay);
        if !self.is_over() {
            in_lock_delay.push((Arc::clone(hold), until));
        }
    }

    /// Lists all its claims, those in their lock-delay too. None joins and none leaves while the result lives.
    pub(crate) fn list(&self, all: &mut Vec<Arc<Hold>>) -> impl Drop + '_ {
        let holds = lock(&self.holds);
        all.clear();
        all.extend(holds.all().map(Arc::clone));
        all.extend(self.in_lock_delay());
        holds
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        lock(&self.holds).all().map(Arc::clone).collect()
    }

    /// So many of its claims that come after this one.
    pub(super) fn holds_after(&self, id: Option<ClaimId>, count: usize) -> Vec<Arc<Hold>> {
        lock(&self.holds).after(id, count)
    }

    /// The claims that are to be renewed by then, the earliest first.
    pub(super) fn due_by(&self, by: Instant) -> Vec<Arc<Hold>> {
        lock(&self.holds).due_by(by)
    }

    /// When the next of its claims is to be renewed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        lock(&self.holds).next_due()
    }

    pub(super) fn set_due_of(&self, hold: &Hold, at: Option<Instant>) {
        lock(&self.holds).set_due(hold, at);
    }

    pub(super) fn find(&self, id: ClaimId) -> Option<Arc<Hold>> {
        lock(&self.holds).get(id).map(Arc::clone)
    }

    /// The same also for a claim in its lock-delay.
    pub(super) fn find_even_lost(&self, id: ClaimId) -> Option<Arc<Hold>> {
        // Where it is on its way from one list to the other it is in the second when it has left the first.
        let lost = || self.in_lock_delay().into_iter().find(|hold| hold.key.id == id);
        self.find(id).or_else(lost)
    }

    pub(crate) fn forget(&self, hold: &Arc<Hold>, now: Instant) {
        self.remove(hold, now);
        lock(&self.in_lock_delay).retain(|(in_lock_delay, _)| in_lock_delay.key.id != hold.key.id);
    }

    /// Takes those whose time is over.
    pub(crate) fn take_over_delay(&self, now: Instant) -> Vec<Arc<Hold>> {
        let mut in_lock_delay = lock(&self.in_lock_delay);
        let (over, still): (Vec<_>, Vec<_>) = in_lock_delay.drain(..).partition(|(_, until)| *until <= now);
        *in_lock_delay = still;
        over.into_iter().map(|(hold, _)| hold).collect()
    }

    pub(crate) fn in_lock_delay(&self) -> Vec<Arc<Hold>> {
        lock(&self.in_lock_delay).iter().map(|(hold, _)| Arc::clone(hold)).collect()
    }

    /// Forgets all claims, which keep the session as it keeps them. For one that is over, when nobody looks any more.
    pub(super) fn clear(&self) {
        let all = (std::mem::take(&mut *lock(&self.holds)), std::mem::take(&mut *lock(&self.in_lock_delay)));
        // What becomes of them in the store nobody would hear.
        all.1.iter().for_each(|(hold, _)| hold.give_away());
        // Not with a lock held.
        drop(all);
    }

    /// When the first lock-delay ends.
    pub(super) fn end_of_lock_delay(&self) -> Option<Instant> {
        lock(&self.in_lock_delay).iter().map(|(_, until)| *until).min()
    }

    /// Ends it if nothing of it is in use, and was not for a whole ttl; whether it did.
    pub(crate) fn end_if_idle(&self, now: Instant) -> bool {
        let used = Instant::from_nanos(self.used.load(Ordering::Acquire));
        // Under this lock no claim can join.
        let holds = lock(&self.holds);
        let idle = holds.is_empty() && lock(&self.in_lock_delay).is_empty() && now >= used + self.ttl;
        // One that is over is somebody else's business: it may have been given away.
        let idle = idle && !self.is_over();
        if idle {
            self.over.store(true, Ordering::Release);
        }
        idle
    }

    /// The store may have forgotten what is held: the watchdog begins a round of renewals. From any thread.
    pub(super) fn suspect(&self) {
        self.danger.suspect();
        self.wake.notify_one();
    }

    /// Begins a round of renewals, if the store has asked for one: what is held, and would be renewed in time, is due
    /// now. Returns whether one has begun.
    pub(super) fn begin_round(&self, now: Instant) -> bool {
        let Some(round) = self.danger.begin(now) else { return false };
        let held = |hold: &Arc<Hold>| hold.stage() == Stage::Granted && hold.is_renewed();
        let mut suspected: Vec<_> = self.holds().into_iter().filter(held).collect();
        suspected.sort_by_key(|hold| hold.deadline());
        for (before, hold) in suspected.iter().enumerate() {
            let due = round.due(before);
            hold.set_due(Some(hold.due().map_or(due, |at| at.min(due))));
        }
        if !suspected.is_empty() {
            self.set_due(self.due().min(round.due(0)));
        }
        self.danger.suspect_these(suspected.iter().map(|hold| hold.key.id));
        true
    }

    /// Notes how the last renewal went, where one went. Returns whether the session is in danger, where that has
    /// changed.
    pub(super) fn book(&self, failing: Option<bool>) -> Option<bool> {
        self.danger.book(failing, |id| self.find(id).is_some())
    }

    pub(crate) fn state(&self) -> SessionState {
        if self.is_over() {
            SessionState::Expired
        } else if self.danger.is_shown() {
            SessionState::Jeopardy
        } else {
            SessionState::Valid
        }
    }

    /// No claim can be made in it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends it; whether it was not over before.
    pub(crate) fn end(&self) -> bool {
        let holds = lock(&self.holds);
        let first = !self.over.swap(true, Ordering::AcqRel);
        drop(holds);
        self.wake.notify_waiters();
        self.wake.notify_one();
        first
    }

    pub(crate) fn due(&self) -> Instant {
        Instant::from_nanos(self.due.load(Ordering::Acquire))
    }

    pub(crate) fn set_due(&self, at: Instant) {
        self.due.store(at.as_nanos(), Ordering::Release);
    }

    /// Wakes the watchdog if it would not look by `at`.
    pub(crate) fn wake_watchdog(&self, at: Instant) {
        if at.as_nanos() < self.planned.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Whether the server's clock has advanced against ours by more than two clocks may drift apart.
    pub(crate) fn clock_ran_away(&self, server: Duration, sent: Instant, received: Instant) -> bool {
        let mut last = lock(&self.server_clock);
        let ran_away = last.is_some_and(|(before, at)| {
            // The reply was made somewhere between sending and receiving.
            let local = received.saturating_since(at);
            let allowance = local / 100 + Duration::from_millis(5);
            server.saturating_sub(before) > local + allowance
        });
        *last = Some((server, sent));
        ran_away
    }
}

/// How many acknowledged renewals back the proof of a session's life lies; `None` where claims live by themselves.
pub(super) fn proof_lag(can: &Capabilities) -> Option<u8> {
    match can.expiry {
        Expiry::PerClaim => None,
        Expiry::Session { proof_lag, .. } => Some(proof_lag),
    }
}

/// Nothing here panics while it holds one of these locks, so a poisoned one is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ClaimKey;
    use crate::time::Clock;

    fn session(proof_lag: Option<u8>, sent: Instant) -> Session {
        let ttl = Duration::from_secs(30);
        Session::new(SessionSpec::new(ttl, Duration::ZERO), SessionId::random(), ttl, proof_lag, sent)
    }

    #[test]
    fn a_claims_own_request_proves_nothing_where_life_belongs_to_the_session() {
        let t0 = Clock::boot().now();
        let later = t0 + Duration::from_secs(20);
        let lease = believed(Duration::from_secs(30));
        assert_eq!(session(None, t0).proven_until(later), later + lease);
        let owned = session(Some(0), t0);
        assert_eq!(owned.proven_until(later), t0 + lease);
        owned.prove(later);
        assert_eq!(owned.proven_until(later), later + lease);
    }

    #[test]
    fn no_claim_joins_or_is_kept_in_a_session_that_is_over() {
        let clock = Clock::boot();
        let session = Arc::new(session(None, clock.now()));
        let hold = || {
            let key = ClaimKey { name: "n".parse().unwrap(), session: session.id.clone(), id: ClaimId::random() };
            Arc::new(Hold::new(key, Arc::clone(&session), clock.clone()))
        };
        assert!(session.add(&hold(), clock.now()));
        assert!(session.end());
        assert!(!session.add(&hold(), clock.now()));
        assert_eq!(session.holds().len(), 1);
        // It would keep the session, which keeps it.
        session.keep_in_lock_delay(&hold(), clock.now());
        assert_eq!(session.in_lock_delay().len(), 0);
    }

    #[test]
    fn with_a_lag_the_last_but_one_renewal_counts() {
        let t0 = Clock::boot().now();
        let at = |s| t0 + Duration::from_secs(s);
        let lease = believed(Duration::from_secs(30));
        let lagging = session(Some(1), t0);
        lagging.prove(at(10));
        assert_eq!(lagging.proven_until(at(11)), t0 + lease);
        lagging.prove(at(20));
        assert_eq!(lagging.proven_until(at(21)), at(10) + lease);
    }

    #[test]
    fn a_server_clock_that_runs_away_is_seen() {
        let t0 = Clock::boot().now();
        let at = |s| t0 + Duration::from_secs(s);
        let s = session(None, t0);
        let server = Duration::from_secs(1_000_000);
        assert!(!s.clock_ran_away(server, t0, t0));
        assert!(!s.clock_ran_away(server + Duration::from_secs(10), at(10), at(10)));
        assert!(s.clock_ran_away(server + Duration::from_secs(80), at(20), at(20)));
    }
}
