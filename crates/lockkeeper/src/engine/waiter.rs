//! The wait of one id in line: claim, wait, claim again, until the claim is granted, retired, or
//! given up.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use super::attempt::Attempt;
use super::hold::Stage;
use super::limits::{CLAIM_PAUSE_MAX, CLAIM_PAUSE_MIN, CLAIM_TRIES, OUTSIDE_MAX, PUSHED_RENEWAL};
use super::outcome::{BusyLine, Outcome, PendingClaim};
use super::request::Request;
use crate::event::Event;
use crate::random::jittered;
use crate::store::{Claim, Interest, Revision, Verdict, Wake};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, Result};

impl Attempt {
    /// Sends the claim until it is settled, and waits in line.
    pub(super) async fn pursue(&self, pending: &mut PendingClaim) -> Outcome {
        loop {
            let hold = &pending.hold;
            if hold.is_dead() {
                return Outcome::Retired;
            }
            if hold.stage() == Stage::Granted {
                return Outcome::Granted;
            }
            if self.is_stopped() {
                return Outcome::GivenUp;
            }
            let sent = self.engine.now();
            // Computed before the request is sent: the store ignores later renewals when it decides
            // how long the claim lives.
            let until = hold.session.proven_until(sent);
            let claim = self.claim(hold, pending.sent);
            let answer = self.engine.store.claim(&claim).await;
            // A second request does not retire an id that the store cannot have seen.
            pending.sent |=
                answer.as_ref().map_or_else(|error| error.effect() == Effect::Unknown, |_| true);
            let next = match answer {
                Ok(verdict) => {
                    pending.tries = 0;
                    self.judge(&pending.hold, verdict, sent, until).await
                }
                Err(error) => self.retry(pending, error).await,
            };
            if let Some(outcome) = next {
                return outcome;
            }
        }
    }

    fn claim(&self, hold: &Hold, resend: bool) -> Claim {
        let Request { spec, weight, capacity, .. } = &self.request;
        Claim {
            key: hold.key.clone(),
            ttl: hold.session.ttl,
            wait_ttl: hold.session.wait_ttl,
            lock_delay: spec.lock_delay,
            weight: *weight,
            capacity: *capacity,
            queue: self.waits_in_line(),
            resend,
            replaces: self.request.replaces.as_ref().map(|old| old.key.id),
            max_waiters: self.engine.settings.max_waiters.min(self.engine.capabilities.max_waiters),
            meta: self.meta(),
        }
    }

    /// Judges an answer; `None`: look again.
    async fn judge(
        &self,
        hold: &Arc<Hold>,
        verdict: Verdict,
        sent: Instant,
        until: Instant,
    ) -> Option<Outcome> {
        match verdict {
            Verdict::Granted { token, ttl } => {
                let alive = hold.granted(token, hold.keeps(ttl, until));
                self.engine.plan(hold, sent, hold.ttl() / 3);
                self.engine.sessions.publish_recovery();
                Some(if alive { Outcome::Granted } else { Outcome::Retired })
            }
            Verdict::Queued { ahead, seen, look_again } => {
                let first = hold.stage() == Stage::InFlight;
                if !hold.queued(sent) {
                    return Some(Outcome::Retired);
                }
                self.control.join_line(&self.engine.events, &self.request.name);
                self.engine.plan(hold, sent, hold.session.wait_ttl / 3);
                if first {
                    self.engine.events.emit(&Event::Queued { name: &hold.key.name, ahead });
                }
                self.wait(hold, seen, look_again).await
            }
            Verdict::Busy { retry_after, seen, .. } => {
                Some(Outcome::Busy(BusyLine { seen, retry_after }))
            }
            Verdict::Gone => Some(Outcome::Retired),
        }
    }

    /// Waits in line until the next claim may find a change.
    async fn wait(
        &self,
        hold: &Arc<Hold>,
        seen: Revision,
        look_again: Duration,
    ) -> Option<Outcome> {
        let wake = tokio::select! {
            biased;
            () = self.stopped() => return Some(Outcome::GivenUp),
            () = hold.settled() => return None,
            wake = self.engine.store.wait(Interest::Claim(&hold.key), seen, look_again) => wake,
        };
        match wake {
            Ok(Wake::Granted { token }) => Some(self.pushed(hold, token).await),
            Ok(Wake::Changed | Wake::Elapsed) => None,
            Err(error) => {
                tracing::debug!(target: "lockkeeper", lock = %hold.key.name, %error, "waiting failed");
                self.pause(jittered(CLAIM_PAUSE_MIN * 2)).await;
                None
            }
        }
    }

    /// Waits outside the line until it has moved, or a holder may have expired, and at most for
    /// [`OUTSIDE_MAX`].
    pub(super) async fn wait_outside(&self, line: BusyLine) {
        // An attempt that was turned away outlasts an outage, as an attempt in line does.
        self.control.join_line(&self.engine.events, &self.request.name);
        let name = &self.request.name;
        let holders_end = line.retry_after.map_or(OUTSIDE_MAX, |at| at + Duration::from_millis(1));
        let within = jittered(OUTSIDE_MAX).min(holders_end);
        let woken = tokio::select! {
            biased;
            () = self.stopped() => return,
            woken = self.engine.store.wait(Interest::Name(name), line.seen, within) => woken,
        };
        if let Err(error) = woken {
            tracing::debug!(target: "lockkeeper", lock = %name, %error, "waiting failed");
            self.pause(jittered(CLAIM_PAUSE_MIN * 2)).await;
        }
    }

    /// The store has granted the claim without a request. That proves no new time, so the claim is
    /// renewed soon. With a lock-delay or a fixed lease, the caller gets the lock only after the
    /// store has acknowledged the whole life.
    async fn pushed(&self, hold: &Arc<Hold>, token: u64) -> Outcome {
        if !hold.pushed(token) {
            return Outcome::Retired;
        }
        if self.request.spec.lock_delay.is_zero() && !self.request.fixed {
            let due = self.engine.now() + PUSHED_RENEWAL.min(hold.remaining() / 8);
            hold.session.schedule(hold, due);
            // The watchdog sets its timer now, and other workers of the runtime drive the timer:
            // the caller may go on with work that has no await.
            tokio::task::yield_now().await;
            return Outcome::Granted;
        }
        self.confirm(hold).await
    }

    /// Renews the claim until the store has acknowledged its whole life, or has refused for good.
    pub(super) async fn confirm(&self, hold: &Arc<Hold>) -> Outcome {
        hold.session.unschedule(hold);
        loop {
            hold.offer_still();
            let sent = self.engine.now();
            let renewed = self.engine.renew(&hold.session, std::slice::from_ref(hold)).await;
            match renewed {
                Err(error)
                    if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::SessionLost) =>
                {
                    return Outcome::Failed(error);
                }
                _ if hold.is_dead() => return Outcome::Retired,
                // The answer "unknown" acknowledges nothing.
                Ok(()) if hold.lease_deadline() >= hold.proven_until(sent) => {
                    return Outcome::Granted;
                }
                _ => {}
            }
            self.engine.clock.sleep(jittered(CLAIM_PAUSE_MIN)).await;
        }
    }

    /// Decides after an error; `None`: send the claim again.
    async fn retry(&self, pending: &mut PendingClaim, error: Error) -> Option<Outcome> {
        if error.effect() == Effect::Unknown {
            pending.hold.mark_unsettled();
        }
        match error.kind() {
            ErrorKind::SessionLost => {
                self.engine.expire_session(&pending.hold.session);
                return Some(Outcome::Retired);
            }
            ErrorKind::Unavailable => {}
            _ => return Some(Outcome::Failed(error)),
        }
        pending.tries += 1;
        match self.pause_or_fail(error, pending.tries).await {
            Ok(()) => None,
            // The next task gets the place in line, if there is one.
            Err(_) if self.is_stopped() => Some(Outcome::GivenUp),
            Err(error) => Some(Outcome::Failed(error)),
        }
    }

    /// An attempt that the store has never answered fails after a few tries. An attempt that stands
    /// in line goes on until its time-out.
    pub(super) async fn pause_or_fail(&self, error: Error, tries: u32) -> Result<()> {
        let temporary = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::SessionLost);
        if !temporary || (tries >= CLAIM_TRIES && !self.control.was_in_line()) {
            return Err(if temporary { self.unreachable(&error, tries) } else { error });
        }
        if self.control.was_in_line() {
            let (name, error) =
                (&self.request.name, self.engine.describe(error.clone(), &self.request.name));
            self.engine.events.emit(&Event::ClaimFailed { name, error: &error });
        }
        self.control.fail(error);
        self.pause(jittered(CLAIM_PAUSE_MIN * 2_u32.pow(tries.min(6))).min(CLAIM_PAUSE_MAX)).await;
        if self.is_stopped() { Err(self.gave_up()) } else { Ok(()) }
    }

    fn unreachable(&self, error: &Error, tries: u32) -> Error {
        let took = self.engine.now().saturating_since(self.began);
        let mut unreachable = Error::new(
            ErrorKind::Unavailable,
            format!(
                "{} could not be used within {:.1} s ({tries} tries): {}",
                self.engine.store,
                took.as_secs_f32(),
                error.message()
            ),
        );
        if let Some(remedy) = error.remedy() {
            unreachable = unreachable.with_remedy(remedy);
        }
        if error.effect() == Effect::Unknown {
            unreachable.with_unknown_effect()
        } else {
            unreachable
        }
    }
}
