//! A session: the claims of one ttl and lock-delay, and the proofs that they live.

mod claims;
mod server_clock;
mod timer;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::claims::SessionClaims;
use self::server_clock::ServerClock;
use self::timer::WatchdogTimer;
use super::danger::Danger;
use super::hold::{Hold, Stage};
use super::lock::lock;
use crate::store::{Capabilities, Expiry, SessionId, SessionSpec};
use crate::time::{Instant, believed};
use lockkeeper_core::kit::Process;

/// The state of a keeper's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// The store acknowledges the renewals.
    Valid,
    /// Renewals fail, and the leases have not expired yet. Or the connection to the store is a new
    /// one, and the store has not yet acknowledged every held lock on it.
    Jeopardy,
    /// A lease has expired without a renewal, or the store has forgotten the session. The locks of
    /// the session are lost. New attempts get a new session.
    Expired,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) spec: SessionSpec,
    pub(crate) id: SessionId,
    /// The ttl that the store has granted.
    pub(crate) ttl: Duration,
    /// How long a waiter lives without a renewal; never longer than a holder.
    pub(crate) wait_ttl: Duration,
    /// The process of the session.
    pub(super) process: Process,
    /// Whether the lease is fixed: one claim, renewed while it waits and once at the grant.
    fixed: AtomicBool,
    /// Whether another process has opened the session. It outlives this process.
    adopted: bool,
    proofs: Proofs,
    pub(super) claims: SessionClaims,
    pub(super) danger: Danger,
    pub(super) server_clock: ServerClock,
    pub(super) watchdog: WatchdogTimer,
    /// When the session itself is renewed, if claims live with it.
    due: AtomicU64,
}

/// The acknowledged renewals that prove that a session lives, on stores whose claims live with
/// their session.
#[derive(Debug)]
struct Proofs {
    /// How many acknowledged renewals back the proof lies.
    lag: Option<u8>,
    /// When the renewals were sent.
    sent: Mutex<VecDeque<Instant>>,
}

impl Session {
    /// A session that was opened by a request sent at `sent`.
    pub(crate) fn new(
        spec: SessionSpec,
        id: SessionId,
        ttl: Duration,
        proof_lag: Option<u8>,
        sent: Instant,
    ) -> Self {
        Self {
            wait_ttl: spec.wait_ttl.min(ttl),
            spec,
            id,
            ttl,
            process: Process::this(),
            fixed: AtomicBool::new(false),
            adopted: false,
            proofs: Proofs::new(proof_lag, sent),
            claims: SessionClaims::new(sent),
            danger: Danger::default(),
            server_clock: ServerClock::default(),
            watchdog: WatchdogTimer::default(),
            due: AtomicU64::new((sent + ttl / 3).as_nanos()),
        }
    }

    /// A session that another process has opened: only a renewal proves that it lives.
    pub(super) fn adopted(spec: SessionSpec, id: SessionId, proof_lag: Option<u8>) -> Self {
        let ttl = spec.ttl;
        let session = Self::new(spec, id, ttl, proof_lag, Instant::from_nanos(0));
        session.fix();
        Self { adopted: true, ..session }
    }

    /// Whether another process has opened the session. This process does not close it.
    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Whether the claims live with the session, and not each by itself.
    pub(crate) fn expires_as_one(&self) -> bool {
        self.proofs.lag.is_some()
    }

    pub(crate) fn fix(&self) {
        self.fixed.store(true, Ordering::Release);
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed.load(Ordering::Acquire)
    }

    /// The deadline of a claim that a request sent at `sent` found granted. If claims live with
    /// their session, only a renewal that was proven before `sent` counts: a later renewal need not
    /// have found the claim.
    pub(crate) fn proven_until(&self, sent: Instant) -> Instant {
        self.proofs.proven().map_or(sent, |proven| proven.min(sent)) + believed(self.ttl)
    }

    /// The end of a life with this ttl; `until` is the end of the same life with the ttl of the
    /// session.
    pub(super) fn until_with(&self, ttl: Duration, until: Instant) -> Instant {
        let shorter = believed(self.ttl).saturating_sub(believed(ttl));
        Instant::from_nanos(
            until.as_nanos().saturating_sub(u64::try_from(shorter.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// Until when a client may believe in a claim that a request sent at `sent` found waiting, or
    /// whose first request was sent then: for a waiter's life, and no longer than the session if
    /// claims live with it.
    pub(crate) fn waits_until(&self, sent: Instant) -> Instant {
        self.proven_until(sent).min(sent + believed(self.wait_ttl))
    }

    /// A renewal sent at `sent` was acknowledged.
    pub(crate) fn prove(&self, sent: Instant) {
        self.proofs.add(sent);
    }

    /// Plans the renewal of this claim for `at`. The watchdog looks by then.
    pub(super) fn schedule(&self, hold: &Hold, at: Instant) {
        self.claims.set_due(hold, Some(at));
        self.watchdog.wake_by(at);
    }

    /// The request sent at `sent` is the last that has found this claim. Plans the next renewal for
    /// `every` later, or soon if the store may have forgotten the claim since.
    pub(super) fn schedule_after(&self, hold: &Hold, sent: Instant, every: Duration) {
        let at = self
            .claims
            .set_due_to(hold, || self.danger.again(sent).unwrap_or(sent + hold.spread(every)));
        self.watchdog.wake_by(at);
    }

    /// Plans the renewal of this claim for `at` or earlier.
    pub(super) fn renew_by(&self, hold: &Hold, at: Instant) {
        self.claims.bring_forward(hold, at);
        self.watchdog.wake_by(at);
    }

    /// Plans no renewal of this claim any more.
    pub(super) fn unschedule(&self, hold: &Hold) {
        self.claims.set_due(hold, None);
    }

    /// When the session itself is renewed.
    pub(super) fn due(&self) -> Instant {
        Instant::from_nanos(self.due.load(Ordering::Acquire))
    }

    pub(super) fn set_due(&self, at: Instant) {
        self.due.store(at.as_nanos(), Ordering::Release);
    }

    /// The store may have forgotten held claims: the watchdog begins a round of renewals. Callable
    /// from any thread.
    pub(super) fn suspect(&self) {
        self.danger.suspect();
        self.watchdog.wake();
    }

    /// Begins a round of renewals if the store has asked for one: every held claim that is renewed
    /// at all is due now. Returns whether a round has begun.
    pub(super) fn begin_round(&self, now: Instant) -> bool {
        let Some(round) = self.danger.begin(now) else { return false };
        let held = |hold: &Arc<Hold>| hold.stage() == Stage::Granted && hold.is_renewed();
        let mut suspected: Vec<_> = self.claims.live().into_iter().filter(held).collect();
        suspected.sort_by_key(|hold| hold.deadline());
        for (before, hold) in suspected.iter().enumerate() {
            self.claims.bring_forward(hold, round.due(before));
        }
        if !suspected.is_empty() {
            self.set_due(self.due().min(round.due(0)));
        }
        self.danger.suspect_these(suspected.iter().map(|hold| hold.key.id));
        true
    }

    /// Notes the outcome of the last renewal, if there was one. Returns whether the session is in
    /// danger, if that has changed.
    pub(super) fn book(&self, failing: Option<bool>) -> Option<bool> {
        self.danger.book(failing, |id| self.claims.find(id).is_some())
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

    /// Whether the session has ended: it gets no new claim.
    pub(crate) fn is_over(&self) -> bool {
        self.claims.is_over()
    }

    /// Ends the session; returns whether it had not ended before.
    pub(crate) fn end(&self) -> bool {
        let first = self.claims.end();
        self.watchdog.wake();
        first
    }

    /// Ends the session if it was unused for a whole ttl; returns whether it did.
    pub(super) fn end_if_idle(&self, now: Instant) -> bool {
        self.claims.end_if_unused(now, self.ttl)
    }
}

impl Proofs {
    /// The opening of a session proves as much as all the renewals that count.
    fn new(lag: Option<u8>, sent: Instant) -> Self {
        Self {
            lag,
            sent: Mutex::new(
                std::iter::repeat_n(sent, usize::from(lag.unwrap_or(0)) + 1).collect(),
            ),
        }
    }

    /// When the renewal that counts was sent; `None` if claims live by themselves.
    fn proven(&self) -> Option<Instant> {
        self.lag.and_then(|_| lock(&self.sent).front().copied())
    }

    fn add(&self, renewed: Instant) {
        let keep = usize::from(self.lag.unwrap_or(0)) + 1;
        let mut sent = lock(&self.sent);
        // Renewals may be acknowledged out of order.
        let at = sent.partition_point(|s| *s <= renewed);
        sent.insert(at, renewed);
        while sent.len() > keep {
            sent.pop_front();
        }
    }
}

/// How many acknowledged renewals back the proof of a session's life lies; `None` if claims live by
/// themselves.
pub(super) fn proof_lag(can: &Capabilities) -> Option<u8> {
    match can.expiry {
        Expiry::PerClaim => None,
        Expiry::Session { proof_lag, .. } => Some(proof_lag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    fn session(proof_lag: Option<u8>, sent: Instant) -> Session {
        let ttl = Duration::from_secs(30);
        Session::new(
            SessionSpec::new(ttl, Duration::ZERO),
            SessionId::random(),
            ttl,
            proof_lag,
            sent,
        )
    }

    #[test]
    fn a_claims_own_request_proves_nothing_with_leases_of_the_session() {
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
}
