//! Detached locks: the handle of a guard, and the guard of a handle.

use std::sync::Arc;
use std::time::Duration;

use super::super::handle::Handle;
use super::Guard;
use crate::engine::{Engine, Hold};
use crate::{FencingToken, Mode};

impl Guard {
    /// The handle of the detached lock, which no keeper renews.
    pub(crate) fn into_handle(mut self) -> Handle {
        self.released = true;
        self.forget_owner();
        self.hold.count_no_more();
        self.engine.detach(&self.hold);
        Handle::new(
            self.full_name(),
            &self.hold,
            self.engine.store.to_string(),
            self.token,
            self.mode,
        )
    }

    /// The guard of a lock that another process has acquired.
    pub(crate) fn adopt(
        engine: &Arc<Engine>,
        hold: Arc<Hold>,
        token: FencingToken,
        mode: Mode,
    ) -> Self {
        let span =
            tracing::debug_span!(target: "lockkeeper", "lock.hold", lock = %hold.key.name, %token);
        let (engine, since) = (Arc::clone(engine), engine.now());
        Self {
            engine,
            hold,
            token,
            mode,
            owner: None,
            reason: None,
            reentrant: None,
            share: None,
            since,
            waited: Duration::ZERO,
            released: false,
            span,
        }
    }
}
