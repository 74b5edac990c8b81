//! The common part of all kinds: a name, a ttl, a lock-delay.

use std::sync::Arc;
use std::time::Duration;

use crate::LockName;
use crate::acquire::Acquire;
use crate::engine::{Engine, Request};
use crate::store::SessionSpec;

/// A lock of some kind.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) engine: Arc<Engine>,
    pub(super) name: LockName,
    pub(super) ttl: Duration,
    pub(super) lock_delay: Duration,
}

impl Named {
    pub(super) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        let (ttl, lock_delay) = (engine.settings.ttl, engine.settings.lock_delay);
        Self { engine: Arc::clone(engine), name, ttl, lock_delay }
    }

    pub(super) fn request(&self, weight: u32, capacity: u32) -> Request {
        Request::new(
            self.name.clone(),
            weight,
            capacity,
            SessionSpec::new(self.ttl, self.lock_delay),
        )
    }

    /// An attempt that waits without a limit.
    pub(super) fn acquire<G: crate::Acquired>(&self, weight: u32, capacity: u32) -> Acquire<G> {
        Acquire::new(&self.engine, self.request(weight, capacity), true)
    }

    /// An attempt that does not wait.
    pub(super) fn try_acquire<G: crate::Acquired>(&self, weight: u32, capacity: u32) -> Acquire<G> {
        Acquire::new(&self.engine, self.request(weight, capacity), false)
    }
}

/// The durations of a kind that has a field `lock` of [`Named`].
macro_rules! durations {
    ($kind:ty) => {
        impl $kind {
            /// The ttl: how long the lock stays taken at most when its holder vanishes. The keeper
            /// renews the lease after each third of the ttl. The default is the keeper's ttl (30
            /// s). A store that sees the end of a process, such as the file store, frees its locks
            /// at once.
            ///
            /// If the store does not support this ttl, the first attempt returns `Unsupported`.
            #[must_use]
            pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
                self.lock.ttl = ttl;
                self
            }

            /// The lock-delay: how much longer than the ttl the store keeps the lock from others
            /// when its holder vanished. It is for resources that cannot check tokens, and gives
            /// the last requests of that holder time to arrive. The default is the keeper's
            /// lock-delay (zero). A release in time ends the hold at once.
            #[must_use]
            pub fn lock_delay(mut self, delay: std::time::Duration) -> Self {
                self.lock.lock_delay = delay;
                self
            }
        }
    };
}

/// The durations and the name, for a kind of one lock.
macro_rules! settings {
    ($kind:ty) => {
        crate::kinds::named::durations!($kind);

        impl $kind {
            /// The name as it was typed, without the keeper's prefix.
            pub fn name(&self) -> &crate::LockName {
                &self.lock.name
            }

            /// The name in the store and in sequencers, with the keeper's prefix.
            pub fn full_name(&self) -> crate::LockName {
                self.lock.engine.settings.full_name(&self.lock.name)
            }
        }
    };
}

pub(super) use {durations, settings};
