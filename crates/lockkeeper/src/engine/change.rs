//! Claims that are changed while they are held.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{AMEND_PAUSE, AMEND_TRIES};
use super::{Attempt, Engine, Grant, Granted, Hold, Request};
use crate::random::jittered;
use crate::store::{Amend, Amended};
use crate::{Effect, Error, ErrorKind, LostReason, Result};

impl Engine {
    /// Changes a claim in place. Every change may be asked for twice. Must be polled to its end.
    ///
    /// # Errors
    /// Of unknown effect when an answer was lost and none came after it, and when it was done for a
    /// claim that is lost.
    pub(crate) async fn amend(self: &Arc<Self>, hold: &Arc<Hold>, change: &Amend) -> Result<()> {
        self.amend_while(hold, change, || Ok(())).await
    }

    /// The same for somebody who may give up: `wanted` is asked before each try, and its error is
    /// the answer.
    pub(super) async fn amend_while(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        change: &Amend,
        wanted: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let name = &hold.key.name;
        if !self.capabilities.amend {
            let error =
                Error::new(ErrorKind::Unsupported, "this store cannot change a claim that is held");
            return Err(self.describe(error.with_remedy("release it and acquire it again"), name));
        }
        let (mut tries, mut unknown) = (0, false);
        let shows = matches!(change, Amend::Value(_) | Amend::Meta(_));
        let mut number = hold.next_change(shows);
        loop {
            let goes_on =
                self.usable().map_err(|error| error.about(name.clone())).and_then(|()| wanted());
            if let Err(error) = goes_on.and_then(|()| hold.check()) {
                // What was asked for before may have happened all the same.
                return Err(if unknown { error.with_unknown_effect() } else { error });
            }
            tries += 1;
            match self.store.amend(&hold.key, number, change).await {
                Ok(Amended::Done) => return hold.check().map_err(Error::with_unknown_effect),
                // What this client has made it show since then is to stay.
                Ok(Amended::Older { .. }) if shows && hold.shows_later(number) => {
                    return hold.check().map_err(Error::with_unknown_effect);
                }
                // A change of another kind has overtaken it, or another process has changed the
                // claim.
                Ok(Amended::Older { last }) if tries < AMEND_TRIES => {
                    hold.was_changed(last);
                    number = hold.next_change(shows);
                    continue;
                }
                Ok(Amended::Older { .. }) => {
                    let error =
                        Error::new(ErrorKind::Unavailable, "others change this claim all the time")
                            .with_remedy("again in a moment");
                    let error = self.describe(error, name);
                    return Err(if unknown { error.with_unknown_effect() } else { error });
                }
                Ok(Amended::NotLive) => self.lose(hold, LostReason::Forgotten),
                Err(error) if error.kind() == ErrorKind::SessionLost => {
                    self.expire_session(&hold.session)
                }
                Err(error) => {
                    unknown |= error.effect() == Effect::Unknown;
                    if tries == AMEND_TRIES || error.kind() != ErrorKind::Unavailable {
                        let error = self.describe(error, name);
                        return Err(if unknown { error.with_unknown_effect() } else { error });
                    }
                }
            }
            if !hold.is_dead() {
                self.clock.sleep(jittered(AMEND_PAUSE * tries)).await;
            }
        }
    }

    /// Puts a new claim, with a new token, into the place of one that is held, if that is alone in
    /// its line. Must be polled to its end.
    ///
    /// # Errors
    /// `Timeout` when it is not alone: the old claim stays. `Lost` when the old claim was lost
    /// before the answer. After any error but the first neither of them is to be believed in.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        old: &Arc<Hold>,
        request: Request,
    ) -> Result<Granted> {
        let request = Request { replaces: Some(Arc::clone(old)), ..request };
        let attempt = Attempt {
            engine: Arc::clone(self),
            request,
            control: Arc::default(),
            began: self.now(),
        };
        old.set_being_replaced(true);
        match attempt.run().await {
            Ok(granted) => self.succeed(old, granted),
            Err(error) => {
                old.set_being_replaced(false);
                if error.kind() == ErrorKind::Timeout {
                    // That it is not alone may be because it is not there any more.
                    old.check()?;
                    // What was heard of it meanwhile proved nothing.
                    self.plan(old, self.now(), Duration::ZERO);
                }
                Err(error)
            }
        }
    }

    /// The new claim has the place of the old one; and its lock-delay, if the old one is in that.
    fn succeed(self: &Arc<Self>, old: &Arc<Hold>, granted: Granted) -> Result<Granted> {
        if let Some(reason) = old.loss().cloned() {
            // The timer of the deadlines may not have seen it yet.
            self.lose(old, reason);
        }
        if let Some(until) = old.session.claims.lock_delay_of(old) {
            let (_, Grant { hold, .. }) = granted.take();
            // In a delay without a loss it was left by a panic, and nobody gets the answer.
            let reason = old.loss().cloned().unwrap_or(LostReason::Uncollected);
            hold.lose(reason.clone());
            self.keep_in_lock_delay(&hold, until);
            return Err(Error::lost(hold.key.name.clone(), reason));
        }
        old.check()?;
        granted.hold().end_with(old);
        granted.hold().asked_as(old);
        self.deadlines.expect(granted.hold().deadline());
        old.session.claims.forget(old, self.now());
        if old.session.is_fixed() {
            self.close_session(&old.session);
        }
        Ok(granted)
    }
}
