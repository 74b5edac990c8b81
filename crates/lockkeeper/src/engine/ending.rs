//! How an attempt ends: with a guard, or with an error; and how it ends a claim that it does not
//! need.

use std::sync::Arc;

use super::outcome::Outcome;
use super::turn::Turn;
use super::{Attempt, Granted, Hold};
use crate::time::Instant;
use crate::{Error, ErrorKind, Result};

impl Attempt {
    /// Makes a guard of the claim, unless the claim has expired before.
    pub(super) async fn grant_to_caller(&self, hold: Arc<Hold>) -> Result<Option<Granted>> {
        if self.request.fixed && self.engine.now() + hold.ttl() / 10 * 9 > hold.lease_deadline() {
            // If claims live with their session, the grant has only the rest of the session's life:
            // the fixed lease begins now.
            match self.confirm(&hold).await {
                Outcome::Failed(error) => return Err(self.fail(&hold, error)),
                Outcome::Retired => {
                    self.withdraw_unneeded(&hold);
                    return Ok(None);
                }
                _ => {}
            }
        }
        if hold.is_dead() {
            self.withdraw_unneeded(&hold);
            return Ok(None);
        }
        let engine = Arc::clone(&self.engine);
        let token = match engine.token(hold.token()) {
            Ok(token) => token,
            Err(error) => {
                engine.withdraw_later(&hold);
                return Err(error.about(self.request.name.clone()));
            }
        };
        hold.collect();
        let granted = Granted::new(&engine, hold, token, &self.request);
        if let Some(max_hold) = self.request.max_hold {
            granted.end_after(max_hold);
        }
        Ok(Some(granted))
    }

    /// The new claim may have replaced the old one before it was withdrawn: the client can believe
    /// in neither claim.
    pub(super) fn replaced_by_nothing(&self) -> Error {
        let error =
            Error::new(ErrorKind::Unavailable, "the answer to the upgrade came too late, or never");
        let error = error.with_unknown_effect().with_remedy("acquire it again");
        self.engine.describe(error, &self.request.name)
    }

    /// The store has nothing left of the claim. A late copy of an upgrade could still replace the
    /// reader's claim, and no client would believe in that grant: a tombstone refuses the copy.
    pub(super) fn turned_away(&self, hold: &Arc<Hold>) {
        if self.request.replaces.is_some() {
            hold.mark_unsettled();
            return self.engine.withdraw_later(hold);
        }
        self.forget(hold);
    }

    /// The store cannot have seen the claim: no request for it has had an effect. So there is
    /// nothing to withdraw, which the store may refuse for the same reason.
    pub(super) fn refused(&self, hold: &Arc<Hold>, error: Error) -> Error {
        self.forget(hold);
        self.engine.describe(error, &self.request.name)
    }

    fn forget(&self, hold: &Arc<Hold>) {
        hold.session.claims.forget(hold, self.engine.now());
        if self.request.fixed {
            self.engine.close_session(&hold.session);
        }
    }

    pub(super) fn busy(&self) -> Error {
        Error::new(ErrorKind::Timeout, "others hold it, or wait for it")
            .with_remedy("a longer wait, or inspect it to see who holds it")
            .about(self.request.name.clone())
    }

    pub(super) fn would_deadlock(&self) -> Error {
        Error::new(ErrorKind::WouldDeadlock, "the same owner holds it in this process")
            .with_remedy("hand the guard down, or use one reentrant mutex in all places")
            .about(self.request.name.clone())
    }

    /// Leaves the claim to the next task of this process, or withdraws it.
    pub(super) fn leave(&self, turn: Option<Turn>, hold: &Arc<Hold>) -> Error {
        let inherited = turn.is_some_and(|mut turn| !hold.is_dead() && turn.leave_claim(hold));
        if !inherited {
            self.withdraw_unneeded(hold);
        }
        self.gave_up()
    }

    pub(super) fn fail(&self, hold: &Arc<Hold>, error: Error) -> Error {
        self.withdraw_unneeded(hold);
        self.engine.describe(error, &self.request.name)
    }

    /// Withdraws the claim, unless it may have replaced a claim that was lost or left: then it has
    /// to keep the lock-delay of that claim.
    pub(super) fn withdraw_unneeded(&self, hold: &Arc<Hold>) {
        if let Some(until) = self.inherited_delay() {
            self.engine.keep_in_lock_delay(hold, until);
        } else if self.request.replaces.is_some() || hold.begin_release() {
            self.engine.withdraw_later(hold);
        }
    }

    fn inherited_delay(&self) -> Option<Instant> {
        let old = self.request.replaces.as_ref()?;
        let delay = self.request.spec.lock_delay;
        let by_loss = (old.is_dead() && !delay.is_zero()).then(|| self.engine.now() + delay);
        by_loss.max(old.session.claims.lock_delay_of(old))
    }

    pub(super) fn gave_up(&self) -> Error {
        match self.engine.usable() {
            Err(error) => error.about(self.request.name.clone()),
            Ok(()) => Error::new(
                ErrorKind::Timeout,
                "others held it, or waited for it, for the whole wait",
            )
            .with_remedy("a longer wait, or inspect it to see who holds it")
            .about(self.request.name.clone()),
        }
    }
}
