//! Watching the sessions of a keeper.

use tokio::sync::watch;

use crate::engine::SessionState;

/// The state of a keeper's sessions, to read or to await.
#[derive(Clone, Debug)]
pub struct SessionWatch(watch::Receiver<SessionState>);

impl SessionWatch {
    pub(super) fn new(states: watch::Receiver<SessionState>) -> Self {
        Self(states)
    }

    /// The worst state of the sessions.
    pub fn state(&self) -> SessionState {
        *self.0.borrow()
    }

    /// The next state, as soon as it differs from the last state that was seen. The future stays
    /// pending for ever when the keeper is gone.
    ///
    /// # Cancel safety
    /// The future may be dropped. It misses no change, but may report several quick changes as one.
    pub async fn changed(&mut self) -> SessionState {
        match self.next().await {
            Some(state) => state,
            None => std::future::pending().await,
        }
    }

    /// Like `changed`; `None` when the keeper is gone.
    pub(crate) async fn next(&mut self) -> Option<SessionState> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}
