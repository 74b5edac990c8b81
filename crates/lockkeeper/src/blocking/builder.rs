//! Setting up a keeper for threads.

use std::sync::Arc;
use std::time::Duration;

use super::keeper::Keeper;
use super::park::wait;
use crate::store::{Fencing, Store};
use crate::{Event, Open, Result};

/// A keeper to be set up: see [`KeeperBuilder`](crate::KeeperBuilder).
#[derive(Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct KeeperBuilder {
    inner: crate::KeeperBuilder,
}

impl KeeperBuilder {
    pub(super) fn new(inner: crate::KeeperBuilder) -> Self {
        Self { inner: inner.dedicated_thread() }
    }

    fn set(self, set: impl FnOnce(crate::KeeperBuilder) -> crate::KeeperBuilder) -> Self {
        Self { inner: set(self.inner) }
    }

    /// Uses this store, open already or to be [opened](Open), instead of the one that the URL names. What else the URL
    /// says holds.
    pub fn store(self, store: impl Open<dyn Store>) -> Self {
        self.set(|inner| inner.store(store))
    }

    /// How long a lock stays taken when its holder vanishes, where a handle does not say otherwise; 30 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.set(|inner| inner.ttl(ttl))
    }

    /// How much longer the store keeps a lock from others when its holder vanished, where a handle does not say
    /// otherwise; zero.
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.set(|inner| inner.lock_delay(delay))
    }

    /// How long a lock may be held at most, where an attempt does not say otherwise; no limit.
    pub fn max_hold(self, d: Duration) -> Self {
        self.set(|inner| inner.max_hold(d))
    }

    /// How long an attempt waits at most that does not say for how long; for ever. See
    /// [`KeeperBuilder::default_wait`](crate::KeeperBuilder::default_wait).
    pub fn default_wait(self, d: Duration) -> Self {
        self.set(|inner| inner.default_wait(d))
    }

    /// Plain text that is put before every name; none. See [`KeeperBuilder::prefix`](crate::KeeperBuilder::prefix).
    pub fn prefix(self, prefix: &str) -> Self {
        self.set(|inner| inner.prefix(prefix))
    }

    /// Who this is, for people who look at a lock, never as proof; `user@host:pid`. At most 255 bytes.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.set(|inner| inner.owner(owner))
    }

    /// The epoch of all tokens, 0 to 511; 0. See [`KeeperBuilder::epoch`](crate::KeeperBuilder::epoch).
    pub fn epoch(self, epoch: u16) -> Self {
        self.set(|inner| inner.epoch(epoch))
    }

    /// How long a line may become; 1000. Whoever comes later gets [`QueueFull`](crate::ErrorKind::QueueFull).
    pub fn max_waiters(self, waiters: u32) -> Self {
        self.set(|inner| inner.max_waiters(waiters))
    }

    /// Refuses to connect to a store whose tokens are worth less.
    pub fn require(self, fencing: Fencing) -> Self {
        self.set(|inner| inner.require(fencing))
    }

    /// What is called with every [`Event`]: on whatever thread it happens, the engine's among them. It must not wait:
    /// a call of this module that would is refused there. A panic in it is logged and goes no further.
    pub fn on_event(self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.set(|inner| inner.on_event(callback))
    }

    /// Puts a store around the store, once that is open: for one that was named by a URL. Of several the last is the
    /// outermost.
    pub fn layer<S: Store>(self, around: impl FnOnce(Arc<dyn Store>) -> S + Send + Sync + 'static) -> Self {
        self.set(|inner| inner.layer(around))
    }

    /// Opens the store, where it is not open yet, and starts the engine on a thread of its own.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a setting that is impossible,
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for one that the store cannot do, and what the store refuses when
    /// it is opened.
    pub fn connect(self) -> Result<Keeper> {
        wait(self.inner.connect())?.map(Keeper::new)
    }

    /// Without what only connecting can do.
    pub(super) fn start(self) -> Result<Keeper> {
        self.inner.start().map(Keeper::new)
    }
}
