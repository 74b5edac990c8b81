//! Opening sessions, and closing unused sessions. Several attempts that need the same session open
//! it once.
//!
//! The engine polls the opening, and not the first attempt: an attempt that is not polled delays no
//! other.

use std::sync::Arc;
use std::time::Duration;

use super::session::{Session, proof_lag};
use super::sessions::Opening;
use super::{Engine, watchdog};
use crate::store::{SessionId, SessionSpec};
use crate::{Error, ErrorKind, LostReason, Result};

/// Ends an opening with an outcome, even if the task that opens panics or is dropped.
struct Opens {
    engine: Arc<Engine>,
    spec: SessionSpec,
    opening: Arc<Opening>,
}

impl Opens {
    fn end(&self, opened: Result<Arc<Session>>) {
        if opened.is_err() {
            // The opening is forgotten first: an attempt that receives the failure finds no failed
            // opening when it tries again.
            self.engine.sessions.forget_opening(&self.spec, &self.opening);
        }
        self.opening.end(opened);
    }
}

impl Drop for Opens {
    fn drop(&mut self) {
        if !self.opening.is_done() {
            self.end(Err(if self.engine.lifetime.has_no_runtime() {
                runtime_ended()
            } else {
                panicked()
            }));
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
    Error::new(
        ErrorKind::Unavailable,
        format!("a session of {ttl:?} ended before the store reported that it was open"),
    )
    .with_remedy("a longer ttl: the store takes longer to answer than a session lives")
}

impl Engine {
    /// The session of this ttl and lock-delay; opens it if there is none. This future may be
    /// dropped.
    ///
    /// # Errors
    /// `Unavailable` if the opened session has ended already.
    pub(crate) async fn session(self: &Arc<Self>, spec: &SessionSpec) -> Result<Arc<Session>> {
        // The first session may be old, and another attempt may have opened the second one long
        // ago.
        for _ in 0..3 {
            let (opening, is_new) = self.sessions.opening(spec);
            if is_new {
                let opens = Opens {
                    engine: Arc::clone(self),
                    spec: spec.clone(),
                    opening: Arc::clone(&opening),
                };
                self.runtime
                    .post(async move { opens.end(opens.engine.open_session(&opens.spec).await) });
            }
            let session = opening.opened().await?;
            let now = self.now();
            if !session.is_over() && session.proven_until(now) > now {
                return Ok(session);
            }
            // No acknowledgement proves any more that the store still has the session.
            self.end_session(&session, &LostReason::Expired);
            self.sessions.forget_opening(spec, &opening);
        }
        Err(too_slow(spec.ttl))
    }

    /// Opens a session. Must be polled to its end.
    pub(crate) async fn open_session(self: &Arc<Self>, spec: &SessionSpec) -> Result<Arc<Session>> {
        let sent = self.clock.now();
        let id = SessionId::random();
        let opened = self.store.open(&id, spec).await?;
        let session =
            Session::new(spec.clone(), id, opened.ttl, proof_lag(&self.capabilities), sent);
        // The session counts as used from now on, however long the opening took.
        session.claims.use_now(self.now());
        let session = Arc::new(session);
        self.sessions.add(Arc::clone(&session));
        self.sessions.publish();
        self.runtime.serve(watchdog::run(
            Arc::downgrade(self),
            Arc::clone(&session),
            self.clock.clone(),
        ));
        Ok(session)
    }

    /// Forgets an unused session, and closes it in the store.
    pub(crate) fn close_session(self: &Arc<Self>, session: &Arc<Session>) {
        session.end();
        self.sessions.forget(session);
        // The danger of this session is over.
        self.sessions.publish();
        let (engine, session) = (Arc::clone(self), Arc::clone(session));
        self.runtime.post(async move {
            // The store lets the session expire if this request does not reach it.
            if let Err(error) = engine.store.close(&session.id, &[]).await {
                tracing::debug!(target: "lockkeeper", %error, "the store did not learn that a session has ended");
            }
        });
    }
}
