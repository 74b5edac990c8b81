//! Opening a session once, for all attempts that want it at the same time.
//!
//! The engine polls the opening, not the attempt that asked first: an attempt that nobody polls holds up no other.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::Engine;
use super::lock::lock;
use super::session::Session;
use crate::store::SessionSpec;
use crate::{Error, ErrorKind, LostReason, Result};

/// A session, once it is open, or why it could not be opened. The attempts that wait for it go on in
/// the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Opening {
    outcome: OnceLock<Result<Arc<Session>>>,
    done: Notify,
}

/// Fills an opening, whatever becomes of the task that opens.
struct Opens {
    engine: Arc<Engine>,
    spec: SessionSpec,
    opening: Arc<Opening>,
}

impl Opening {
    /// Whether it is this session that was opened.
    pub(super) fn is(&self, session: &Arc<Session>) -> bool {
        self.outcome.get().is_some_and(|opened| opened.as_ref().is_ok_and(|open| Arc::ptr_eq(open, session)))
    }

    async fn opened(&self) -> Result<Arc<Session>> {
        loop {
            // It is woken by all that comes from here on.
            let done = self.done.notified();
            if let Some(opened) = self.outcome.get() {
                return opened.clone();
            }
            done.await;
        }
    }

    /// The first outcome stands.
    fn end(&self, outcome: Result<Arc<Session>>) {
        let _ = self.outcome.set(outcome);
        self.done.notify_waiters();
    }
}

impl Opens {
    fn end(&self, opened: Result<Arc<Session>>) {
        if opened.is_err() {
            // First: an attempt that hears of the failure finds no failed opening when it tries again.
            self.engine.forget_opening(&self.spec, &self.opening);
        }
        self.opening.end(opened);
    }
}

impl Drop for Opens {
    fn drop(&mut self) {
        if self.opening.outcome.get().is_none() {
            self.end(Err(if self.engine.has_no_runtime() { runtime_ended() } else { panicked() }));
        }
    }
}

fn runtime_ended() -> Error {
    Error::new(ErrorKind::Closed, "the runtime in which the keeper was connected has ended")
        .with_remedy("connect in a runtime that lives as long as the keeper, or KeeperBuilder::dedicated_thread")
}

fn panicked() -> Error {
    Error::new(ErrorKind::Internal, "the store panicked while it opened a session")
}

fn too_slow(ttl: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a session of {ttl:?} had ended before the store told that it was open"))
        .with_remedy("a longer ttl: the store takes longer to answer than a session lives")
}

impl Engine {
    /// The session of this ttl and lock-delay, opened if there is none. It may be dropped.
    ///
    /// # Errors
    /// `Unavailable` when one that was opened is over already.
    pub(crate) async fn session(self: &Arc<Self>, spec: &SessionSpec) -> Result<Arc<Session>> {
        // The first one may have been there for long, and the second may be opened by others.
        for _ in 0..3 {
            let opening = self.opening(spec);
            let session = opening.opened().await?;
            let now = self.now();
            if !session.is_over() && session.proven_until(now) > now {
                return Ok(session);
            }
            // Nothing proves any more that the store still has it.
            self.end_session(&session, &LostReason::Expired);
            self.forget_opening(spec, &opening);
        }
        Err(too_slow(spec.ttl))
    }

    /// The opening that is under way or done, or a new one.
    fn opening(self: &Arc<Self>, spec: &SessionSpec) -> Arc<Opening> {
        let mut shared = lock(&self.shared);
        if let Some(opening) = shared.get(spec) {
            return Arc::clone(opening);
        }
        let opening = Arc::new(Opening::default());
        shared.insert(spec.clone(), Arc::clone(&opening));
        drop(shared);
        let opens = Opens { engine: Arc::clone(self), spec: spec.clone(), opening: Arc::clone(&opening) };
        self.runtime.post(async move { opens.end(opens.engine.open_session(&opens.spec).await) });
        opening
    }

    fn forget_opening(&self, spec: &SessionSpec, opening: &Arc<Opening>) {
        let mut shared = lock(&self.shared);
        if shared.get(spec).is_some_and(|current| Arc::ptr_eq(current, opening)) {
            shared.remove(spec);
        }
    }
}
