//! The channels on which releases are published, and who listens to each in this client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockkeeper_core::kit::Listeners;
use lockkeeper_core::sync::lock;
use tokio::sync::Notify;

use super::ForeignRedisStore;
use super::layout::Keys;
use crate::store::Losses;
use crate::time::Clock;
use crate::wire::Listener;

/// The subscription of a waiter stays for so long after its end: most waiters soon wait again.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// Every channel that this client listens to.
#[derive(Debug, Default)]
pub(super) struct Channels {
    all: Mutex<HashMap<Vec<u8>, Listening>>,
    pub(super) losses: Listeners,
}

#[derive(Debug, Default)]
struct Listening {
    messages: Arc<ChannelMessages>,
    /// How many listeners the channel has.
    listeners: usize,
    /// The subscription stays for a while, although the last listener has left.
    is_leaving: bool,
}

/// The messages on a channel.
#[derive(Debug, Default)]
pub(super) struct ChannelMessages {
    count: AtomicU64,
    notify: Notify,
}

/// A listener to a channel, until it is dropped.
#[derive(Debug)]
pub(super) struct Listens {
    store: ForeignRedisStore,
    channel: Vec<u8>,
    messages: Arc<ChannelMessages>,
    /// The number of messages before this listener came.
    before: u64,
}

impl Listens {
    /// Subscribes to the channel of these keys. A request that is sent from now on has its answer
    /// before any message that this listener may miss.
    pub(super) fn new(store: &ForeignRedisStore, keys: &Keys) -> Self {
        let channel = keys.channel();
        let mut all = store.0.channels.lock();
        let here = all.entry(channel.clone()).or_default();
        here.listeners += 1;
        let messages = Arc::clone(&here.messages);
        if here.listeners == 1 && !here.is_leaving {
            // Under the lock, so that an end and a beginning of the same channel come in order.
            store.0.route.subscribe(keys.slot(), channel.clone());
        }
        drop(all);
        let before = messages.count.load(Ordering::SeqCst);
        Self { store: store.clone(), channel, messages, before }
    }

    /// Whether a message has come since this listener came.
    pub(super) fn has_message(&self) -> bool {
        self.messages.count.load(Ordering::SeqCst) != self.before
    }

    /// Notified when a message came, or may have been missed.
    pub(super) fn notify(&self) -> &Notify {
        &self.messages.notify
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        let mut all = self.store.0.channels.lock();
        let Some(here) = all.get_mut(&self.channel) else { return };
        here.listeners -= 1;
        if here.listeners == 0 && !here.is_leaving {
            here.is_leaving = true;
            let leaving = leave_later(Arc::downgrade(&self.store.0), self.channel.clone());
            self.store.0.runtime.serve(leaving);
        }
    }
}

/// Ends a subscription after a while, unless the channel has a listener by then.
async fn leave_later(store: std::sync::Weak<super::Shared>, channel: Vec<u8>) {
    Clock::boot().sleep(LEAVE_AFTER).await;
    let Some(shared) = store.upgrade() else { return };
    let mut all = shared.channels.lock();
    let Some(here) = all.get_mut(&channel) else { return };
    here.is_leaving = false;
    if here.listeners == 0 {
        all.remove(&channel);
        shared.route.unsubscribe(&channel);
    }
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Listening>> {
        lock(&self.all)
    }
}

impl Listener for Channels {
    fn pushed(&self, channel: &[u8], _payload: &[u8]) {
        if let Some(here) = self.lock().get(channel) {
            here.messages.count.fetch_add(1, Ordering::SeqCst);
            here.messages.notify.notify_waiters();
        }
    }

    fn subscribed(&self, channel: &[u8]) {
        // The listeners look at the line: an earlier message may have been missed.
        if let Some(here) = self.lock().get(channel) {
            here.messages.notify.notify_waiters();
        }
    }

    fn unsubscribed(&self, channel: &[u8]) {
        self.subscribed(channel);
    }

    fn reconnected(&self) {
        self.losses.notify(Losses::reconnected);
    }
}
