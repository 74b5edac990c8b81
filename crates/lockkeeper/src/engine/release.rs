//! Releasing: withdrawing an unneeded claim, until it is known to be gone or has expired.

use std::sync::Arc;

use super::limits::{RELEASE_PAUSE_MAX, RELEASE_PAUSE_MIN, RELEASE_TRIES, WHO_REMOVED};
use super::{Engine, Hold};
use crate::event::Event;
use crate::store::{TOMBSTONE_MIN, Withdrawal};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, LostReason, Result};
use lockkeeper_core::kit::Backoff;

impl Engine {
    /// Withdraws a claim for its holder. The holder of an adopted claim looks first whether it is
    /// over: the store may still keep a claim in its lock-delay, which must not end early. Must be
    /// polled to its end.
    ///
    /// # Errors
    /// `Lost` if the claim was no longer held.
    pub(crate) async fn release(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<()> {
        if !hold.is_proven() && self.finds_over(hold).await {
            self.clean_up_after_loss(hold);
            return hold.check();
        }
        let release = Release { engine: self, hold };
        release.forget();
        if release.now().await? == Withdrawal::Removed {
            return Ok(());
        }
        release.found_absent().await;
        hold.check()
    }

    /// Withdraws a claim in the background. The first request is sent before this returns, if the
    /// store allows that.
    pub(crate) fn withdraw_later(self: &Arc<Self>, hold: &Arc<Hold>) {
        let release = Release { engine: self, hold };
        release.forget();
        self.runtime.post(release.in_background());
    }

    /// The guard of a lost lock is gone, and no work goes on under the lock. Without a lock-delay
    /// the claim is withdrawn; otherwise the delay runs out.
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
}

/// The withdrawal of a claim.
struct Release<'a> {
    engine: &'a Arc<Engine>,
    hold: &'a Arc<Hold>,
}

impl Release<'_> {
    /// The session no longer renews the claim.
    fn forget(&self) {
        self.hold.session.claims.forget(self.hold, self.engine.now());
    }

    /// Withdraws the claim, in a few tries; after the last one the background goes on. A fixed
    /// session stays open if the claim was absent. Must be polled to its end.
    async fn now(&self) -> Result<Withdrawal> {
        let mut unknown = false;
        let (mut tries, mut backoff) = (0, Backoff::new(RELEASE_PAUSE_MIN, RELEASE_PAUSE_MAX));
        loop {
            tries += 1;
            match self.once().await {
                // An earlier try of this release may have removed the claim.
                Ok(Withdrawal::Absent) if !unknown => return Ok(Withdrawal::Absent),
                Ok(_) => {
                    self.close_fixed();
                    return Ok(Withdrawal::Removed);
                }
                Err(error) => {
                    unknown |= error.effect() == Effect::Unknown;
                    let error = self.failed(error);
                    // After the end of the runtime there is no timer to sleep on, and no
                    // background.
                    if tries == RELEASE_TRIES
                        || !error.is_retryable()
                        || self.engine.lifetime.has_no_runtime()
                    {
                        self.engine.runtime.finish(self.in_background());
                        return Err(error);
                    }
                }
            }
            self.engine.clock.sleep(backoff.pause()).await;
        }
    }

    /// Withdraws the claim until it is gone.
    fn in_background(&self) -> impl Future<Output = ()> + Send + use<> {
        let (engine, hold) = (Arc::clone(self.engine), Arc::clone(self.hold));
        async move { Release { engine: &engine, hold: &hold }.until_gone().await }
    }

    async fn until_gone(&self) {
        let until = self.ended_by_itself();
        let mut backoff = Backoff::new(RELEASE_PAUSE_MIN, RELEASE_PAUSE_MAX);
        while let Err(error) = self.once().await {
            // A store that is gone for good takes the claim with it.
            if error.kind() == ErrorKind::Closed || self.engine.now() >= until {
                // No watchdog notices that an adopted session is idle.
                if self.hold.session.is_adopted() {
                    self.engine.detach(self.hold);
                }
                return;
            }
            self.failed(error);
            // The first poll may be in place, in a drop after the end of the runtime: this poll
            // must not make a timer.
            tokio::task::yield_now().await;
            self.engine.clock.sleep(backoff.pause()).await;
        }
        self.close_fixed();
    }

    async fn once(&self) -> Result<Withdrawal> {
        let hold = self.hold;
        let tombstone = hold.is_unsettled().then(|| hold.session.ttl.max(TOMBSTONE_MIN));
        match self.engine.store.withdraw(&hold.key, tombstone).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => {
                self.engine.expire_session(&hold.session);
                hold.lose(LostReason::SessionExpired);
                Ok(Withdrawal::Absent)
            }
            answer => answer,
        }
    }

    fn failed(&self, error: Error) -> Error {
        let name = &self.hold.key.name;
        let error = self.engine.describe(error, name).with_unknown_effect();
        self.engine.events.emit(&Event::ReleaseFailed { name, error: &error });
        error
    }

    /// The store no longer had the claim: it was lost, and the engine had not noticed. Must be
    /// polled to its end.
    async fn found_absent(&self) {
        let Self { engine, hold } = *self;
        if !hold.is_dead() && !hold.session.is_over() {
            self.ask_who_removed().await;
        }
        hold.lose(if hold.session.is_over() {
            LostReason::SessionExpired
        } else {
            LostReason::Forgotten
        });
        // The scan for deadlines would report the loss a second time.
        self.forget();
        if hold.session.is_adopted() {
            engine.detach(hold);
        }
        self.close_fixed();
        if let Some(reason) = hold.loss() {
            engine.report_loss(hold, reason);
        }
    }

    /// Renews the claim: the renewal finds nothing, and a store that remembers who removed the
    /// claim answers with that.
    async fn ask_who_removed(&self) {
        let (engine, hold) = (Arc::clone(self.engine), Arc::clone(self.hold));
        // An answer counts only for a claim that the session has.
        hold.session.claims.keep_in_lock_delay(&hold, engine.now() + hold.session.ttl);
        let (answers, answer) = tokio::sync::oneshot::channel();
        // The answer may also concern the other claims of the session, so it counts even if it is
        // late.
        self.engine.runtime.finish(async move {
            let answered = engine.renew(&hold.session, std::slice::from_ref(&hold)).await;
            // The receiver may be gone.
            let _ = answers.send(answered);
        });
        let error = match self.engine.clock.timeout(WHO_REMOVED, answer).await {
            Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) | None => "no answer".to_owned(),
        };
        tracing::debug!(target: "lockkeeper", error, "the store did not say who removed a lock");
    }

    /// Closes the session of a fixed lease, which ends with its one claim.
    fn close_fixed(&self) {
        if self.hold.session.is_fixed() {
            self.engine.close_session(&self.hold.session);
        }
    }

    /// When the store has dropped the claim, even if it processes the last renewal as late as
    /// possible.
    fn ended_by_itself(&self) -> Instant {
        let lease = self.hold.session.ttl + self.hold.session.spec.lock_delay;
        self.engine.now() + lease.max(TOMBSTONE_MIN) + lease / 10
    }
}
