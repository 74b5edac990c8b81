//! What the nodes report without a request: to the waiters of this client, and to its keepers.

use lockkeeper_core::kit::Listeners;

use crate::waiters::Waiters;

/// The waiters of this client, and the listeners to its losses.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) waiters: Waiters,
    pub(crate) losses: Listeners,
}
