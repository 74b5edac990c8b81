//! The sessions of an engine: those that are open, the ones among them that attempts share, and how
//! they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, watch};

use super::lock::lock;
use super::session::{Session, SessionState};
use crate::Result;
use crate::store::SessionSpec;
use lockkeeper_core::kit::watchful;

#[derive(Debug)]
pub(crate) struct Sessions {
    /// One for each ttl and lock-delay in use.
    shared: Mutex<HashMap<SessionSpec, Arc<Opening>>>,
    /// All open sessions, those of fixed leases too.
    open: Mutex<Vec<Arc<Session>>>,
    state: watch::Sender<SessionState>,
}

/// A session, once it is open, or why it could not be opened. The attempts that wait for it go on
/// in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Opening {
    outcome: OnceLock<Result<Arc<Session>>>,
    done: Notify,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            shared: Mutex::default(),
            open: Mutex::default(),
            state: watch::Sender::new(SessionState::Valid),
        }
    }
}

impl Sessions {
    /// The opening that is under way or done, or a new one, which the caller has to see to; whether
    /// it is new.
    pub(super) fn opening(&self, spec: &SessionSpec) -> (Arc<Opening>, bool) {
        let mut shared = lock(&self.shared);
        if let Some(opening) = shared.get(spec) {
            return (Arc::clone(opening), false);
        }
        let opening = Arc::new(Opening::default());
        shared.insert(spec.clone(), Arc::clone(&opening));
        (opening, true)
    }

    /// The next attempt opens another one.
    pub(super) fn forget_opening(&self, spec: &SessionSpec, opening: &Arc<Opening>) {
        let mut shared = lock(&self.shared);
        if shared.get(spec).is_some_and(|current| Arc::ptr_eq(current, opening)) {
            shared.remove(spec);
        }
    }

    pub(super) fn add(&self, session: Arc<Session>) {
        lock(&self.open).push(session);
    }

    pub(super) fn forget(&self, session: &Arc<Session>) {
        lock(&self.open).retain(|open| !Arc::ptr_eq(open, session));
        let mut shared = lock(&self.shared);
        if shared.get(&session.spec).is_some_and(|opening| opening.is(session)) {
            shared.remove(&session.spec);
        }
    }

    /// All open sessions.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.open).clone()
    }

    /// The store may have forgotten what is held in any of them.
    pub(super) fn suspect_all(&self) {
        self.all().iter().for_each(|session| session.suspect());
    }

    pub(crate) fn watch(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Tells those who watch how the worst of the sessions is.
    pub(super) fn publish(&self) {
        // Found out inside, so that none who found out earlier says so later.
        self.state.send_if_modified(|state| {
            let worst =
                lock(&self.open).iter().map(|s| s.state()).max().unwrap_or(SessionState::Valid);
            std::mem::replace(state, worst) != worst
        });
    }

    /// The store has acknowledged something: the end of an earlier lease is no news any more.
    pub(super) fn publish_recovery(&self) {
        if *self.state.borrow() == SessionState::Expired {
            self.publish();
        }
    }

    pub(super) fn publish_expiry(&self) {
        self.state.send_replace(SessionState::Expired);
    }
}

impl Opening {
    /// Whether it is this session that was opened.
    pub(super) fn is(&self, session: &Arc<Session>) -> bool {
        self.outcome
            .get()
            .is_some_and(|opened| opened.as_ref().is_ok_and(|open| Arc::ptr_eq(open, session)))
    }

    pub(super) async fn opened(&self) -> Result<Arc<Session>> {
        watchful(&self.done, || self.outcome.get().cloned()).await
    }

    /// The first outcome stands.
    pub(super) fn end(&self, outcome: Result<Arc<Session>>) {
        let _ = self.outcome.set(outcome);
        self.done.notify_waiters();
    }

    pub(super) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }
}
