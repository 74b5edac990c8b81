//! The messages on the channels of locks.

use lockkeeper_core::kit::{Listeners, WatchedNames};

use crate::store::Losses;
use crate::wire::Listener;

/// The waiters of this store by the channel of their lock, and the listeners to its losses.
#[derive(Debug, Default)]
pub(super) struct Channels {
    pub(super) waiters: WatchedNames,
    pub(super) losses: Listeners,
}

impl Listener for Channels {
    fn pushed(&self, channel: &[u8], _payload: &[u8]) {
        self.waiters.changed(&String::from_utf8_lossy(channel));
    }

    fn subscribed(&self, channel: &[u8]) {
        // The waiters look at the line: an earlier message may have been missed.
        self.waiters.subscribed(Some(&String::from_utf8_lossy(channel)));
    }

    fn unsubscribed(&self, channel: &[u8]) {
        self.subscribed(channel);
    }

    fn reconnected(&self) {
        self.losses.notify(Losses::reconnected);
    }
}
