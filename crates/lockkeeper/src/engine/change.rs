//! Claims that are changed while they are held.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{AMEND_PAUSE, AMEND_TRIES};
use super::{Attempt, Engine, Grant, Granted, Hold, Request};
use crate::random::jittered;
use crate::store::{Amend, Amended};
use crate::{Effect, Error, ErrorKind, LostReason, Result};

impl Engine {
    /// Changes a claim in place. Every change may be sent twice. Must be polled to its end.
    ///
    /// # Errors
    /// The effect of an error is unknown if an answer was lost and no later answer came, and if the
    /// store has changed a claim that is lost.
    pub(crate) async fn amend(self: &Arc<Self>, hold: &Arc<Hold>, change: &Amend) -> Result<()> {
        self.amend_while(hold, change, || Ok(())).await
    }

    /// Changes a claim as [`amend`](Self::amend) does, for a caller that may give up: `wanted` is
    /// called before each try, and its error is the answer.
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
                // An earlier request may have taken effect all the same.
                return Err(if unknown { error.with_unknown_effect() } else { error });
            }
            tries += 1;
            match self.store.amend(&hold.key, number, change).await {
                Ok(Amended::Done) => return hold.check().map_err(Error::with_unknown_effect),
                // A later change of this client has replaced the value, and stays.
                Ok(Amended::Older { .. }) if shows && hold.shows_later(number) => {
                    return hold.check().map_err(Error::with_unknown_effect);
                }
                // A change of another kind has overtaken this change, or another process has
                // changed the claim.
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

    /// Replaces a held claim by a new claim with a new token, if the held claim is alone in its
    /// line. Must be polled to its end.
    ///
    /// # Errors
    /// `Timeout` if the old claim is not alone: it stays. `Lost` if the old claim was lost before
    /// the answer. After any error but `Timeout` the client may believe in neither claim.
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
                    // The old claim may be gone, and the line may have other holders for that
                    // reason.
                    old.check()?;
                    // The answers for the old claim in the meantime have proved nothing.
                    self.plan(old, self.now(), Duration::ZERO);
                }
                Err(error)
            }
        }
    }

    /// Gives the new claim the place of the old claim, and its lock-delay if the old claim is in
    /// one.
    fn succeed(self: &Arc<Self>, old: &Arc<Hold>, granted: Granted) -> Result<Granted> {
        if let Some(reason) = old.loss().cloned() {
            // The timer of the deadlines may not have noticed the loss yet.
            self.lose(old, reason);
        }
        if let Some(until) = old.session.claims.lock_delay_of(old) {
            let (_, Grant { hold, .. }) = granted.take();
            // A claim in a lock-delay without a loss was left by a panic, and no caller gets the
            // answer.
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
