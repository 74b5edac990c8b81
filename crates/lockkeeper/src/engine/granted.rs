//! A grant on its way to becoming a guard.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Hold, Request};
use crate::{FencingToken, Mode};

/// A claim that holds the lock, on its way to becoming a guard. Dropped before that, it is withdrawn.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) engine: Arc<Engine>,
    grant: Grant,
    taken: bool,
}

/// What becomes of it in a guard.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    pub(crate) mode: Mode,
    pub(crate) reason: Option<Arc<str>>,
}

impl Granted {
    pub(super) fn new(engine: &Arc<Engine>, hold: Arc<Hold>, token: FencingToken, request: &Request) -> Self {
        let (mode, reason) = (request.mode(), request.reason.clone());
        Self { engine: Arc::clone(engine), grant: Grant { hold, token, mode, reason }, taken: false }
    }

    pub(crate) fn take(mut self) -> (Arc<Engine>, Grant) {
        self.taken = true;
        (Arc::clone(&self.engine), self.grant.clone())
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.grant.hold
    }

    /// Held for so long from now on, at most.
    pub(super) fn end_after(&self, max_hold: Duration) {
        self.hold().end_at(self.engine.now() + max_hold);
        self.engine.deadlines.expect(self.hold().deadline());
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if !self.taken && !self.hold().is_forked() {
            self.engine.withdraw_later(self.hold());
        }
    }
}
