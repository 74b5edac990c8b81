//! Withdrawing what nobody wants any more, until it is known to be gone or has ended by itself.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::hold::Hold;
use crate::event::Event;
use crate::random::jittered;
use crate::store::{TOMBSTONE_MIN, Withdrawal};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, LostReason, Result};

/// How often a release is tried while its caller waits.
const TRIES: u32 = 4;
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long a release waits for the store's word on who removed the claim.
const WHO: Duration = Duration::from_secs(1);

impl Engine {
    /// Withdraws a claim, in a few tries; on failure the rest is done in the background. A session of its own stays open
    /// when the claim was absent. Must be polled to its end.
    pub(crate) async fn withdraw(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<Withdrawal> {
        self.forget(hold);
        let mut unknown = false;
        let (mut tries, mut pause) = (0, RETRY_MIN);
        loop {
            tries += 1;
            match self.withdraw_once(hold).await {
                // What an earlier try of ours may have removed was there.
                Ok(Withdrawal::Absent) if !unknown => return Ok(Withdrawal::Absent),
                Ok(_) => {
                    self.close_fixed(hold);
                    return Ok(Withdrawal::Removed);
                }
                Err(error) => {
                    unknown |= error.effect() == Effect::Unknown;
                    let error = self.release_failed(hold, error);
                    // Where the runtime has ended nothing can be slept, and nobody goes on in the background.
                    if tries == TRIES || !error.is_retryable() || self.has_no_runtime() {
                        let (engine, hold) = (Arc::clone(self), Arc::clone(hold));
                        self.runtime.finish(async move { engine.withdraw_until_gone(&hold).await });
                        return Err(error);
                    }
                }
            }
            self.clock.sleep(jittered(pause)).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Withdraws a claim in the background. Its first request goes out before this returns, where the store lets it.
    pub(crate) fn withdraw_later(self: &Arc<Self>, hold: &Arc<Hold>) {
        self.forget(hold);
        let (engine, hold) = (Arc::clone(self), Arc::clone(hold));
        self.runtime.post(async move { engine.withdraw_until_gone(&hold).await });
    }

    /// The guard of a lost lock is gone: nobody works under it any more. Without a lock-delay the claim can go too;
    /// with one, the delay runs out.
    pub(crate) fn clean_up_after_loss(self: &Arc<Self>, hold: &Arc<Hold>) {
        if let Some(reason) = hold.loss().cloned() {
            self.lose(hold, reason);
        }
        if hold.session.spec.lock_delay.is_zero() {
            self.withdraw_later(hold);
        } else if hold.session.is_adopted() {
            self.detach(hold);
        }
    }

    /// The store did not have any more what was to be released: it had been lost, and nobody had noticed. Must be polled
    /// to its end.
    pub(super) async fn found_absent(self: &Arc<Self>, hold: &Arc<Hold>) {
        if !hold.is_dead() && !hold.session.is_over() {
            self.ask_who_removed(hold).await;
        }
        hold.lose(if hold.session.is_over() { LostReason::SessionExpired } else { LostReason::Forgotten });
        // No scan is to find it there, dead, and tell its loss again.
        self.forget(hold);
        if hold.session.is_adopted() {
            self.detach(hold);
        }
        self.close_fixed(hold);
        if let Some(reason) = hold.loss() {
            self.report_loss(hold, reason);
        }
    }

    /// A renewal finds nothing to renew, and a store that remembers who removed the claim says so.
    async fn ask_who_removed(self: &Arc<Self>, hold: &Arc<Hold>) {
        // An answer counts only for a claim that the session has.
        hold.session.claims.keep_in_lock_delay(hold, self.now() + hold.session.ttl);
        let (answers, answer) = tokio::sync::oneshot::channel();
        let (engine, of) = (Arc::clone(self), Arc::clone(hold));
        // Beside it the answer may concern all of the session, so it counts also when it is late.
        self.runtime.finish(async move {
            let answered = engine.renew(&of.session, std::slice::from_ref(&of)).await;
            // Nobody may wait for it any more.
            let _ = answers.send(answered);
        });
        let error = match self.clock.timeout(WHO, answer).await {
            Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) | None => "no answer".to_owned(),
        };
        tracing::debug!(target: "lockkeeper", error, "the store did not say who removed a lock");
    }

    /// A claim that nobody renews any more; a session of its own ends with it.
    fn forget(&self, hold: &Arc<Hold>) {
        hold.session.claims.forget(hold, self.now());
    }

    async fn withdraw_until_gone(self: &Arc<Self>, hold: &Arc<Hold>) {
        let until = self.ended_by_itself(hold);
        let mut pause = RETRY_MIN;
        while let Err(error) = self.withdraw_once(hold).await {
            // A store that is gone for good takes the claim with it.
            if error.kind() == ErrorKind::Closed || self.now() >= until {
                // Of a session that was adopted no watchdog sees that it is idle.
                if hold.session.is_adopted() {
                    self.detach(hold);
                }
                return;
            }
            self.release_failed(hold, error);
            // The first poll may be in place, in a drop after the end of the runtime: no timer is made in it.
            tokio::task::yield_now().await;
            self.clock.sleep(jittered(pause)).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
        self.close_fixed(hold);
    }

    fn release_failed(&self, hold: &Hold, error: Error) -> Error {
        let error = self.describe(error, &hold.key.name).with_unknown_effect();
        self.events.emit(&Event::ReleaseFailed { name: &hold.key.name, error: &error });
        error
    }

    async fn withdraw_once(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<Withdrawal> {
        let tombstone = hold.is_unsettled().then(|| hold.session.ttl.max(TOMBSTONE_MIN));
        match self.store.withdraw(&hold.key, tombstone).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => {
                self.expire_session(&hold.session);
                hold.lose(LostReason::SessionExpired);
                Ok(Withdrawal::Absent)
            }
            answer => answer,
        }
    }

    /// The session of a fixed lease ends with its one claim.
    fn close_fixed(self: &Arc<Self>, hold: &Hold) {
        if hold.session.is_fixed() {
            self.close_session(&hold.session);
        }
    }

    /// When the store has dropped the claim even if it processes the last renewal as late as it can.
    fn ended_by_itself(&self, hold: &Hold) -> Instant {
        let lease = hold.session.ttl + hold.session.spec.lock_delay;
        self.now() + lease.max(TOMBSTONE_MIN) + lease / 10
    }
}
