//! Releasing: withdrawing what nobody wants any more, until it is known to be gone or has ended by
//! itself.

use std::sync::Arc;

use super::limits::{RELEASE_PAUSE_MAX, RELEASE_PAUSE_MIN, RELEASE_TRIES, WHO_REMOVED};
use super::{Engine, Hold};
use crate::event::Event;
use crate::store::{TOMBSTONE_MIN, Withdrawal};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, LostReason, Result};
use lockkeeper_core::kit::Backoff;

impl Engine {
    /// Withdraws a claim for its holder. What was adopted is looked for before: a store may still
    /// have what is over already, and with a lock-delay that must not end early. Must be polled to
    /// its end.
    ///
    /// # Errors
    /// `Lost` when it was not held any more.
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

    /// Withdraws a claim in the background. Its first request goes out before this returns, where
    /// the store lets it.
    pub(crate) fn withdraw_later(self: &Arc<Self>, hold: &Arc<Hold>) {
        let release = Release { engine: self, hold };
        release.forget();
        self.runtime.post(release.in_background());
    }

    /// The guard of a lost lock is gone: nobody works under it any more. Without a lock-delay the
    /// claim can go too; with one, the delay runs out.
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

/// A claim that is to be gone.
struct Release<'a> {
    engine: &'a Arc<Engine>,
    hold: &'a Arc<Hold>,
}

impl Release<'_> {
    /// Nobody renews the claim any more.
    fn forget(&self) {
        self.hold.session.claims.forget(self.hold, self.engine.now());
    }

    /// Withdraws the claim, in a few tries; on failure the rest is done in the background. A
    /// session of its own stays open when the claim was absent. Must be polled to its end.
    async fn now(&self) -> Result<Withdrawal> {
        let mut unknown = false;
        let (mut tries, mut backoff) = (0, Backoff::new(RELEASE_PAUSE_MIN, RELEASE_PAUSE_MAX));
        loop {
            tries += 1;
            match self.once().await {
                // What an earlier try of ours may have removed was there.
                Ok(Withdrawal::Absent) if !unknown => return Ok(Withdrawal::Absent),
                Ok(_) => {
                    self.close_fixed();
                    return Ok(Withdrawal::Removed);
                }
                Err(error) => {
                    unknown |= error.effect() == Effect::Unknown;
                    let error = self.failed(error);
                    // Where the runtime has ended nothing can be slept, and nobody goes on in the
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
                // Of a session that was adopted no watchdog sees that it is idle.
                if self.hold.session.is_adopted() {
                    self.engine.detach(self.hold);
                }
                return;
            }
            self.failed(error);
            // The first poll may be in place, in a drop after the end of the runtime: no timer is
            // made in it.
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

    /// The store did not have any more what was to be released: it had been lost, and nobody had
    /// noticed. Must be polled to its end.
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
        // No scan is to find it there, dead, and tell its loss again.
        self.forget();
        if hold.session.is_adopted() {
            engine.detach(hold);
        }
        self.close_fixed();
        if let Some(reason) = hold.loss() {
            engine.report_loss(hold, reason);
        }
    }

    /// A renewal finds nothing to renew, and a store that remembers who removed the claim says so.
    async fn ask_who_removed(&self) {
        let (engine, hold) = (Arc::clone(self.engine), Arc::clone(self.hold));
        // An answer counts only for a claim that the session has.
        hold.session.claims.keep_in_lock_delay(&hold, engine.now() + hold.session.ttl);
        let (answers, answer) = tokio::sync::oneshot::channel();
        // Beside it the answer may concern all of the session, so it counts also when it is late.
        self.engine.runtime.finish(async move {
            let answered = engine.renew(&hold.session, std::slice::from_ref(&hold)).await;
            // Nobody may wait for it any more.
            let _ = answers.send(answered);
        });
        let error = match self.engine.clock.timeout(WHO_REMOVED, answer).await {
            Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) | None => "no answer".to_owned(),
        };
        tracing::debug!(target: "lockkeeper", error, "the store did not say who removed a lock");
    }

    /// The session of a fixed lease ends with its one claim.
    fn close_fixed(&self) {
        if self.hold.session.is_fixed() {
            self.engine.close_session(&self.hold.session);
        }
    }

    /// When the store has dropped the claim even if it processes the last renewal as late as it
    /// can.
    fn ended_by_itself(&self) -> Instant {
        let lease = self.hold.session.ttl + self.hold.session.spec.lock_delay;
        self.engine.now() + lease.max(TOMBSTONE_MIN) + lease / 10
    }
}
