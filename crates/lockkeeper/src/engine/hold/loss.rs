//! Whether a client may still believe in a claim, and the futures that wait for the end.

use std::time::Duration;

use super::{Hold, Stage};
use crate::{Error, ErrorKind, LostReason};
use lockkeeper_core::kit::watchful;

impl Hold {
    pub(crate) fn remaining(&self) -> Duration {
        if self.belief.loss().is_some() || self.is_forked() || !self.is_proven() {
            return Duration::ZERO;
        }
        self.deadline().saturating_since(self.clock.now())
    }

    /// Whether the client may still believe in the claim. The first refusal is final.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::lost(self.key.name.clone(), LostReason::Forked));
        }
        match self.loss() {
            Some(reason) => Err(Error::lost(self.key.name.clone(), reason.clone())),
            None if !self.is_proven() => Err(Error::new(
                ErrorKind::Unavailable,
                "the store was not asked for it since it was adopted",
            )
            .with_remedy("Guard::renew_once")
            .about(self.key.name.clone())),
            None => Ok(()),
        }
    }

    /// The reason of the loss, if the claim is lost. The clock decides, so a late timer changes
    /// nothing.
    pub(crate) fn loss(&self) -> Option<&LostReason> {
        if self.belief.loss().is_none() {
            let now = self.clock.now();
            if now >= self.belief.deadline() {
                self.settle(self.belief.end_by_clock(now));
            }
        }
        self.belief.loss()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.loss().is_some()
    }

    /// Ends the belief for this reason, unless the clock or another reason has ended it before. A
    /// later reason still counts if it gives the lock away and the first did not.
    pub(crate) fn lose(&self, reason: LostReason) {
        let gives_away = reason.gives_away();
        if !self.is_dead() {
            self.settle(reason);
        }
        if gives_away {
            self.give_away();
        }
    }

    /// Others may have the lock from now on. This notes no loss: a loss has a reason.
    pub(in crate::engine) fn give_away(&self) {
        if self.belief.give_away() {
            self.changed.notify_waiters();
        }
    }

    /// Whether others may have the lock. The clock decides, as in [`loss`](Self::loss).
    pub(in crate::engine) fn is_given_away(&self) -> bool {
        let has_ended = self.belief.lease_is_over(self.clock.now());
        let by_its_loss = self.loss().is_some_and(LostReason::gives_away);
        self.is_forked() || by_its_loss || has_ended || self.belief.is_given_away()
    }

    /// The first reason stands.
    fn settle(&self, reason: LostReason) {
        if self.belief.end(reason) {
            self.changed.notify_waiters();
        }
    }

    /// Completes when the claim was granted or died; the waiter finds out which.
    pub(crate) async fn settled(&self) {
        self.until(|| (self.stage() == Stage::Granted || self.is_dead()).then_some(())).await;
    }

    /// Completes when the claim is lost.
    pub(crate) async fn lost(&self) -> LostReason {
        // A forked child has no engine that would report the fork.
        let forked = || self.is_forked().then_some(LostReason::Forked);
        self.until(|| forked().or_else(|| self.loss().cloned())).await
    }

    /// Completes when others may have the lock, as far as this process knows.
    pub(in crate::engine) async fn given_away(&self) {
        self.until(|| self.is_given_away().then_some(())).await;
    }

    /// Returns the result of `look`, now or after a later change.
    pub(super) async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        watchful(&self.changed, look).await
    }
}
