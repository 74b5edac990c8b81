//! A grant on its way to becoming a guard.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Hold, ReentrantShare, Request};
use crate::event::Event;
use crate::time::Instant;
use crate::{FencingToken, Mode};

/// A claim that holds the lock, on its way to becoming a guard. A drop before that withdraws the
/// claim.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) engine: Arc<Engine>,
    grant: Grant,
    taken: bool,
}

/// The parts of a grant that a guard needs.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    pub(crate) mode: Mode,
    pub(crate) reason: Option<Arc<str>>,
    /// The claim that all guards of the owner share.
    pub(crate) reentrant: Option<Arc<ReentrantShare>>,
    /// Whether the owner had a share before.
    pub(crate) again: bool,
}

impl Granted {
    pub(super) fn new(
        engine: &Arc<Engine>,
        hold: Arc<Hold>,
        token: FencingToken,
        request: &Request,
    ) -> Self {
        let (mode, reason) = (request.mode(), request.reason.clone());
        Self {
            engine: Arc::clone(engine),
            grant: Grant { hold, token, mode, reason, reentrant: None, again: false },
            taken: false,
        }
    }

    /// One more guard for an owner that already holds the lock.
    pub(super) fn again(
        engine: &Arc<Engine>,
        reentrant: Arc<ReentrantShare>,
        request: &Request,
    ) -> Self {
        let mut granted = Self::new(engine, Arc::clone(&reentrant.hold), reentrant.token, request);
        (granted.grant.reentrant, granted.grant.again) = (Some(reentrant), true);
        granted
    }

    pub(crate) fn take(mut self) -> (Arc<Engine>, Grant) {
        self.taken = true;
        (Arc::clone(&self.engine), self.grant.clone())
    }

    /// Whether the owner held the lock before.
    pub(crate) fn is_again(&self) -> bool {
        self.grant.again
    }

    /// Other guards of the owner can share this claim.
    pub(super) fn share(&mut self, share: Arc<ReentrantShare>) {
        self.grant.reentrant = Some(share);
    }

    pub(super) fn token(&self) -> FencingToken {
        self.grant.token
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.grant.hold
    }

    /// Ends the hold at the latest after `max_hold`, from now on.
    pub(super) fn end_after(&self, max_hold: Duration) {
        self.hold().end_at(self.engine.now() + max_hold);
        self.engine.deadlines.expect(self.hold().deadline());
    }
}

impl Granted {
    /// Ends a claim whose other guards are gone, and whose end they have left to this grant.
    fn end_what_was_held(&self, since: Instant) {
        let Grant { hold, token, mode, .. } = &self.grant;
        if hold.is_dead() {
            return self.engine.clean_up_after_loss(hold);
        }
        hold.count_no_more();
        self.engine.withdraw_later(hold);
        let held = self.engine.now().saturating_since(since);
        let (name, token, mode) = (&hold.key.name, *token, *mode);
        self.engine.events.emit(&Event::DroppedWithoutRelease { name, token, mode, held });
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let reentrant = self.grant.reentrant.take();
        if self.taken && reentrant.is_none() {
            return;
        }
        if self.hold().is_forked() {
            // In a forked child, a mutex that the drop would lock may stay locked for ever.
            std::mem::forget(reentrant);
            return;
        }
        let since = reentrant.as_ref().map(|reentrant| reentrant.since);
        if self.taken {
            return;
        }
        if !ReentrantShare::leave(reentrant) {
            if !self.grant.again {
                self.engine.left_to_others(self.hold(), None);
            }
            return;
        }
        match since.filter(|_| self.grant.again) {
            Some(since) => self.end_what_was_held(since),
            None => self.engine.withdraw_later(self.hold()),
        }
    }
}
