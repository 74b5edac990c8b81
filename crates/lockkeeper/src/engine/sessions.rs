//! The sessions of an engine: the open sessions, the sessions that attempts share, and their
//! states.

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
    /// One session for each ttl and lock-delay in use.
    shared: Mutex<HashMap<SessionSpec, Arc<Opening>>>,
    /// All open sessions, with those of fixed leases.
    open: Mutex<Vec<Arc<Session>>>,
    state: watch::Sender<SessionState>,
}

/// A session once it is open, or the error of its opening. The waiting attempts go on in the order
/// of their arrival.
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
    /// The opening of this session, done or under way; and whether it is new: then the caller has
    /// to open the session.
    pub(super) fn opening(&self, spec: &SessionSpec) -> (Arc<Opening>, bool) {
        let mut shared = lock(&self.shared);
        if let Some(opening) = shared.get(spec) {
            return (Arc::clone(opening), false);
        }
        let opening = Arc::new(Opening::default());
        shared.insert(spec.clone(), Arc::clone(&opening));
        (opening, true)
    }

    /// Forgets an opening: the next attempt begins another one.
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

    /// The store may have forgotten held claims of any session.
    pub(super) fn suspect_all(&self) {
        self.all().iter().for_each(|session| session.suspect());
    }

    pub(crate) fn watch(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Publishes the worst state of all sessions.
    pub(super) fn publish(&self) {
        // The state is computed under the lock of the channel, so an older state never replaces a
        // newer one.
        self.state.send_if_modified(|state| {
            let worst =
                lock(&self.open).iter().map(|s| s.state()).max().unwrap_or(SessionState::Valid);
            std::mem::replace(state, worst) != worst
        });
    }

    /// The store has acknowledged a renewal or a claim: the end of an earlier lease is no longer
    /// the newest state.
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
    /// Whether this opening has resulted in this session.
    pub(super) fn is(&self, session: &Arc<Session>) -> bool {
        self.outcome
            .get()
            .is_some_and(|opened| opened.as_ref().is_ok_and(|open| Arc::ptr_eq(open, session)))
    }

    pub(super) async fn opened(&self) -> Result<Arc<Session>> {
        watchful(&self.done, || self.outcome.get().cloned()).await
    }

    /// Ends the opening. The first outcome stands.
    pub(super) fn end(&self, outcome: Result<Arc<Session>>) {
        let _ = self.outcome.set(outcome);
        self.done.notify_waiters();
    }

    pub(super) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }
}
