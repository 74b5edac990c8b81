//! The servers push messages to this client. A push wakes the waiters of its claim or of its name.

use std::sync::{Arc, Weak};

use lockkeeper_core::kit::{Listeners, WaitingClaims, WatchedNames};
use lockkeeper_redis_client::subscriptions::Listens;

use super::layout::{self, Push};
use crate::store::Losses;
use crate::wire::Listener;

/// The waiters of this store, and the listeners to its losses.
#[derive(Debug, Default)]
pub(super) struct PushState {
    pub(super) waiting: WaitingClaims<Listens>,
    pub(super) names: WatchedNames,
    pub(super) losses: Listeners,
}

/// Receives the pushes of the servers, and wakes the waiters. The connections keep it, so it must
/// not keep the store.
#[derive(Debug)]
pub(super) struct PushListener(Weak<PushState>);

impl PushListener {
    pub(super) fn new(pushed: &Arc<PushState>) -> Self {
        Self(Arc::downgrade(pushed))
    }
}

impl Listener for PushListener {
    fn pushed(&self, _channel: &[u8], payload: &[u8]) {
        let (Some(pushed), Some(push)) = (self.0.upgrade(), layout::pushed(payload)) else {
            return;
        };
        match push {
            Push::Granted { id, token } => pushed.waiting.granted(id, token),
            Push::Changed { name } => pushed.names.changed(&String::from_utf8_lossy(&name)),
            Push::Lost { id, broken } => {
                pushed.waiting.again(id);
                pushed.losses.notify(|losses| losses.lost(id, Some(broken.clone())));
            }
            Push::Again { id } => pushed.waiting.again(id),
            // The waiter of the claim looks, and claims again.
            Push::Taken { id } => pushed.waiting.left(id),
            Push::Requested { id, asked } => {
                pushed.losses.notify(|losses| losses.requested(id, &asked))
            }
        }
    }

    fn subscribed(&self, channel: &[u8]) {
        let Some(pushed) = self.0.upgrade() else { return };
        // The channel of the client serves all names, the channel of a name only this name.
        let name = layout::name_of_channel(channel).map(String::from_utf8_lossy);
        pushed.waiting.subscribed(name.as_deref());
        pushed.names.subscribed(name.as_deref());
    }

    fn unsubscribed(&self, channel: &[u8]) {
        // The waiters of the name look, and listen where the name is now.
        self.subscribed(channel);
    }

    fn reconnected(&self) {
        if let Some(pushed) = self.0.upgrade() {
            pushed.losses.notify(Losses::reconnected);
        }
    }
}
