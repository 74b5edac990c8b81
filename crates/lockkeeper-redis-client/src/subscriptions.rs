//! The channels that a client listens to, each for as long as it has a listener.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lockkeeper_core::sync::lock;

use crate::Result;
use crate::route::Route;
use crate::runtime::Runtime;
use crate::time::Clock;

/// A subscription that stays does so for this time after the end of its last listener: most
/// waiters soon wait again.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// Every channel that has a listener.
#[derive(Debug)]
pub struct Subscriptions {
    route: Route,
    all: Mutex<HashMap<Vec<u8>, Listening>>,
    /// The runtime that opened the store. Tasks that outlast their caller run here, so they outlast
    /// the runtime of the caller too.
    runtime: Runtime,
}

/// A channel.
#[derive(Debug, Default)]
struct Listening {
    /// How many listeners the channel has.
    listeners: usize,
    /// The subscription stays for a while, although the last listener has left.
    is_leaving: bool,
}

/// A listener to a channel, until it is dropped.
#[derive(Debug)]
pub struct Listens {
    subscriptions: Weak<Subscriptions>,
    channel: Vec<u8>,
    /// The listener may be back soon, so the subscription stays for a while.
    stays: bool,
}

impl Subscriptions {
    /// No channel, on the connections of this route.
    ///
    /// # Errors
    /// If the system refuses a runtime.
    pub fn new(route: &Route) -> Result<Arc<Self>> {
        let (route, runtime) = (route.clone(), Runtime::here_or_own()?);
        Ok(Arc::new(Self { route, all: Mutex::default(), runtime }))
    }

    /// Listens to this channel of a slot for as long as the result lives, and for a while longer if
    /// the subscription `stays`. A request that is sent from now on has its answer before any
    /// message that this listener may miss.
    pub fn listen(self: &Arc<Self>, slot: u16, channel: Vec<u8>, stays: bool) -> Listens {
        let mut all = self.lock();
        let here = all.entry(channel.clone()).or_default();
        here.listeners += 1;
        if here.listeners == 1 && !here.is_leaving {
            // Under the lock, so that an end and a beginning of the same channel come in order.
            self.route.subscribe(slot, channel.clone());
        }
        drop(all);
        Listens { subscriptions: Arc::downgrade(self), channel, stays }
    }

    /// How many listeners a channel has; `None` if there is no subscription to it.
    pub fn listeners(&self, channel: &[u8]) -> Option<usize> {
        self.lock().get(channel).map(|here| here.listeners)
    }

    /// Ends the subscription to a channel without listeners.
    fn leave(&self, all: &mut HashMap<Vec<u8>, Listening>, channel: &[u8]) {
        if all.get(channel).is_some_and(|here| here.listeners == 0 && !here.is_leaving) {
            all.remove(channel);
            self.route.unsubscribe(channel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Listening>> {
        lock(&self.all)
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        let Some(subscriptions) = self.subscriptions.upgrade() else { return };
        let mut all = subscriptions.lock();
        let Some(here) = all.get_mut(&self.channel) else { return };
        here.listeners -= 1;
        if here.listeners == 0 && self.stays && !here.is_leaving {
            here.is_leaving = true;
            let leaving = leave_later(Weak::clone(&self.subscriptions), self.channel.clone());
            subscriptions.runtime.serve(leaving);
        }
        subscriptions.leave(&mut all, &self.channel);
    }
}

/// Ends a subscription after a while, unless the channel has a listener by then.
async fn leave_later(subscriptions: Weak<Subscriptions>, channel: Vec<u8>) {
    Clock::boot().sleep(LEAVE_AFTER).await;
    let Some(subscriptions) = subscriptions.upgrade() else { return };
    let mut all = subscriptions.lock();
    if let Some(here) = all.get_mut(&channel) {
        here.is_leaving = false;
    }
    subscriptions.leave(&mut all, &channel);
}
