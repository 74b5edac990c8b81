//! How the sessions are, for those who watch.

use tokio::sync::watch;

use super::lock::lock;
use super::{Engine, SessionState};

impl Engine {
    pub(crate) fn watch_state(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Tells those who watch how the worst of the sessions is.
    pub(crate) fn publish_state(&self) {
        // Found out inside, so that none who found out earlier says so later.
        self.state.send_if_modified(|state| {
            let worst = lock(&self.open).iter().map(|s| s.state()).max().unwrap_or(SessionState::Valid);
            std::mem::replace(state, worst) != worst
        });
    }

    /// The store has acknowledged something: the end of an earlier lease is no news any more.
    pub(crate) fn publish_recovery(&self) {
        if *self.state.borrow() == SessionState::Expired {
            self.publish_state();
        }
    }

    pub(crate) fn publish_expiry(&self) {
        self.state.send_replace(SessionState::Expired);
    }
}
