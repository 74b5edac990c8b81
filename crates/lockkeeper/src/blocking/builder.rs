//! Setting up a keeper for threads.

use std::sync::Arc;
use std::time::Duration;

use super::keeper::Keeper;
use super::park::wait;
use crate::store::{Fencing, Store};
use crate::{Event, Open, Result};

/// The settings of a keeper that is not connected yet: see [`KeeperBuilder`](crate::KeeperBuilder).
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

    /// Uses this store instead of the store of the URL. The store may be open already, or a builder that
    /// [`connect`](Self::connect) opens: see [`Open`]. The other settings of the URL stay.
    pub fn store(self, store: impl Open<dyn Store>) -> Self {
        self.set(|inner| inner.store(store))
    }

    /// The ttl: how long a lock stays taken when its holder vanishes. The default is 30 s; a lock can set its own ttl.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.set(|inner| inner.ttl(ttl))
    }

    /// The lock-delay: how much longer than the ttl the store keeps a lock from others when its holder vanished. The
    /// default is zero; a lock can set its own lock-delay.
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.set(|inner| inner.lock_delay(delay))
    }

    /// The longest time to hold a lock, unless the attempt sets another limit. The default is no limit.
    pub fn max_hold(self, d: Duration) -> Self {
        self.set(|inner| inner.max_hold(d))
    }

    /// The longest wait in the queue, unless the attempt sets another. The default is no limit. See
    /// [`KeeperBuilder::default_wait`](crate::KeeperBuilder::default_wait).
    pub fn default_wait(self, d: Duration) -> Self {
        self.set(|inner| inner.default_wait(d))
    }

    /// Plain text before every name in the store. The default is no prefix. See
    /// [`KeeperBuilder::prefix`](crate::KeeperBuilder::prefix).
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        self.set(|inner| inner.prefix(prefix))
    }

    /// The owner that people see when they look at a lock, at most 255 bytes. It proves nothing. The default is
    /// `user@host:pid`.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.set(|inner| inner.owner(owner))
    }

    /// The epoch of all tokens, 0 to 511. The default is 0. See [`KeeperBuilder::epoch`](crate::KeeperBuilder::epoch).
    pub fn epoch(self, epoch: u16) -> Self {
        self.set(|inner| inner.epoch(epoch))
    }

    /// The longest queue of a lock. The default is 1000. An attempt that comes later gets
    /// [`QueueFull`](crate::ErrorKind::QueueFull).
    pub fn max_waiters(self, waiters: u32) -> Self {
        self.set(|inner| inner.max_waiters(waiters))
    }

    /// Refuses to connect to a store with weaker fencing than this.
    pub fn require(self, fencing: Fencing) -> Self {
        self.set(|inner| inner.require(fencing))
    }

    /// Calls `callback` with every [`Event`], on the thread on which the event happens. This may be the engine's
    /// thread, so the callback must not wait: a call of this module that would wait is refused there. The keeper logs a
    /// panic in the callback and goes on.
    pub fn on_event(self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.set(|inner| inner.on_event(callback))
    }

    /// Puts a layer around the store once it is open, for example around the store of a URL. The last of several layers
    /// is the outermost.
    pub fn layer<S: Store>(self, around: impl FnOnce(Arc<dyn Store>) -> S + Send + Sync + 'static) -> Self {
        self.set(|inner| inner.layer(around))
    }

    /// Opens the store if it is not open yet, and starts the engine on a thread of its own.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an impossible setting, [`Unsupported`](crate::ErrorKind::Unsupported)
    /// for a setting that the store does not support. Also the errors with which the store refuses to open.
    pub fn connect(self) -> Result<Keeper> {
        wait(self.inner.connect())?.map(Keeper::new)
    }

    /// Without what only connecting can do.
    pub(super) fn start(self) -> Result<Keeper> {
        self.inner.start().map(Keeper::new)
    }
}
