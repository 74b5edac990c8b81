//! The kinds of locks: thin calls on the async ones.

mod election;
mod leadership;
mod multi;
mod multi_guard;
mod mutex;
mod observer;
mod reentrant;
mod rw_lock;
mod semaphore;

pub use election::Election;
pub use leadership::Leadership;
pub use multi::{MultiBuilder, MultiLock};
pub use multi_guard::MultiGuard;
pub use mutex::Mutex;
pub use observer::Observer;
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;

/// A handle around the async one: what every kind has.
macro_rules! handle {
    ($(#[$doc:meta])* $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $kind {
            inner: crate::$kind,
        }

        impl $kind {
            pub(in crate::blocking) fn new(inner: crate::$kind) -> Self {
                Self { inner }
            }

            /// An attempt with options of its own, such as its wait and its reason.
            pub fn attempt(&self) -> Attempt<'_, Self> {
                Attempt::on(self)
            }

            #[doc = concat!("The ttl: how long the lock stays taken at most when its holder vanishes. The default is the ",
                "keeper's ttl (30 s). See [`", stringify!($kind), "::ttl`](crate::", stringify!($kind), "::ttl).")]
            #[must_use]
            pub fn ttl(self, ttl: Duration) -> Self {
                Self::new(self.inner.ttl(ttl))
            }

            #[doc = concat!("The lock-delay: how much longer than the ttl the store keeps the lock from others when its ",
                "holder vanished. The default is the keeper's lock-delay (zero). See [`", stringify!($kind),
                "::lock_delay`](crate::", stringify!($kind), "::lock_delay).")]
            #[must_use]
            pub fn lock_delay(self, delay: Duration) -> Self {
                Self::new(self.inner.lock_delay(delay))
            }
        }
    };
}

/// The same for a kind of one lock, which has a name.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident) => {
        crate::blocking::kinds::handle!($(#[$doc])* $kind);

        impl $kind {
            /// The name as it was typed, without the keeper's prefix.
            pub fn name(&self) -> &LockName {
                self.inner.name()
            }

            /// The name in the store and in sequencers, with the keeper's prefix.
            pub fn full_name(&self) -> LockName {
                self.inner.full_name()
            }
        }
    };
}

/// A kind of which one guard is had at a time, so that a handle can be had instead.
macro_rules! detachable {
    ($kind:ident) => {
        impl<'a> Attempt<'a, $kind> {
            /// Acquires a lock that outlives this process, and that no keeper renews. The result is a [`Handle`]
            /// instead of a guard. The lock ends `lease` after the grant or the last renewal: see
            /// [`Acquire::detached`](crate::Acquire::detached).
            pub fn detached(self, lease: Duration) -> Attempt<'a, $kind, Handle> {
                self.for_life(lease)
            }
        }
    };
}

use {detachable, handle, named};
