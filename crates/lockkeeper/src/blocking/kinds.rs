//! The kinds of locks.

use std::time::Duration;

use super::attempt::{Acquired, Attempt};
use super::election::Election;
use super::guard::{Guard, MultiGuard};
use super::mirror::{mirror, ways, wrappers};
use super::reentrant::{ReentrantMutex, this_thread};
use crate::{Handle, LockName, Result};

wrappers! {
    /// A lock with one holder at a time, on all machines that use the same store: see
    /// [`Mutex`](crate::Mutex).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let stock = keeper.mutex("stock/42")?;
    /// let guard = stock.lock()?;
    /// assert!(stock.try_lock()?.is_none());
    /// guard.release()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    #[derive(Clone, Debug)]
    Mutex;

    /// A lock that many readers hold together, or one writer alone: see [`RwLock`](crate::RwLock).
    #[derive(Clone, Debug)]
    RwLock;

    /// A number of permits that holders take and give back: see [`Semaphore`](crate::Semaphore).
    #[derive(Clone, Debug)]
    Semaphore;

    /// Several locks as one, all or nothing: see [`MultiLock`](crate::MultiLock).
    #[derive(Clone, Debug)]
    MultiLock;

    /// The builder of a multi-lock, with the names and modes of its locks, from
    /// [`Keeper::multi`](super::Keeper::multi): see [`MultiBuilder`](crate::MultiBuilder).
    #[derive(Clone, Debug)]
    #[must_use = "it does nothing until it is built"]
    MultiBuilder;
}

/// The settings and the attempt of every kind. `tries` is a method that does not wait.
macro_rules! kinds {
    ($($Kind:ident tries $tries:ident($($arg:expr),*);)+) => {$(
        impl $Kind {
            /// An attempt with options of its own, such as its wait and its reason.
            pub fn attempt(&self) -> Attempt<'_, Self> {
                Attempt::new(self, self.inner.$tries($($arg),*))
            }

            mirror! { $Kind:
                /// The ttl: how long the lock stays taken at most when its holder vanishes. The
                /// default is the keeper's ttl (30 s).
                set fn ttl(self, ttl: Duration) -> Self;
                /// The lock-delay: how much longer than the ttl the store keeps the lock from
                /// others when its holder vanished. The default is the keeper's lock-delay (zero).
                set fn lock_delay(self, delay: Duration) -> Self;
            }
        }
    )+};
}

kinds! {
    Mutex tries try_lock();
    RwLock tries try_write();
    Semaphore tries try_acquire();
    ReentrantMutex tries try_lock(&this_thread());
    Election tries try_campaign("");
    MultiLock tries try_lock();
}

/// A kind of one lock, which has a name.
macro_rules! named {
    ($($Kind:ident)+) => {$(
        impl $Kind {
            mirror! { $Kind:
                /// The name as it was typed, without the keeper's prefix.
                call fn name(&self) -> &LockName;
                /// The name in the store and in sequencers, with the keeper's prefix.
                call fn full_name(&self) -> LockName;
            }
        }
    )+};
}

named!(Mutex RwLock Semaphore ReentrantMutex Election);

/// The kinds whose attempts get one guard. Such an attempt can get a handle instead.
macro_rules! detachable {
    ($($Kind:ident)+) => {$(
        impl<'a> Attempt<'a, $Kind> {
            /// Acquires a lock that outlives this process, and that no keeper renews. The result is
            /// a [`Handle`] instead of a guard. The lock ends `lease` after the grant or the last
            /// renewal: see [`Acquire::detached`](crate::Acquire::detached).
            pub fn detached(self, lease: Duration) -> Attempt<'a, $Kind, Handle> {
                self.for_life(lease)
            }
        }
    )+};
}

detachable!(Mutex RwLock Semaphore);

ways! {
    Mutex {
        /// Waits in the queue for the lock, without a limit unless the attempt or the keeper sets
        /// one.
        held lock() -> Guard;
        /// Takes the lock if it is free, and returns `None` if it is not.
        wrap try_lock() -> Option<Guard>;
    }
    RwLock {
        /// Waits in the queue to read, without a limit unless the attempt or the keeper sets one.
        held read() -> Guard;
        /// Takes the lock to read if no writer has it or waits for it, and returns `None`
        /// otherwise.
        wrap try_read() -> Option<Guard>;
        /// Waits in the queue to write, without a limit unless the attempt or the keeper sets one.
        held write() -> Guard;
        /// Takes the lock to write if it is free, and returns `None` if it is not.
        wrap try_write() -> Option<Guard>;
    }
    Semaphore {
        /// Waits in the queue for a permit, without a limit unless the attempt or the keeper sets
        /// one.
        held acquire() -> Guard;
        /// Takes a permit if one is free and the queue is empty, and returns `None` otherwise.
        wrap try_acquire() -> Option<Guard>;
        /// Waits in the queue for this number of permits at once. The permits are one lock.
        held acquire_many(permits: u32) -> Guard;
        /// Takes this number of permits at once if they are free and the queue is empty, and
        /// returns `None` otherwise.
        wrap try_acquire_many(permits: u32) -> Option<Guard>;
    }
    MultiLock {
        /// Waits in the queue of one lock after the other. The wait has no limit, unless the
        /// attempt or the keeper sets one limit for all locks together.
        wrap lock() -> MultiGuard;
        /// Takes the locks if all are free, and returns `None` if one is not.
        wrap try_lock() -> Option<MultiGuard>;
    }
}

impl Semaphore {
    mirror! { Semaphore:
        /// The number of permits of the semaphore.
        call fn permits(&self) -> u32;
    }
}

impl MultiLock {
    mirror! { MultiLock:
        /// The names as they were typed, in the order in which an attempt acquires the locks.
        call fn names(&self) -> impl Iterator<Item = &LockName>;
    }
}

impl MultiBuilder {
    mirror! { MultiBuilder:
        /// Adds an exclusive lock: a mutex, or a lock to write.
        set fn lock<N>(self, name: N) -> Self;
        /// Adds a shared lock: a lock to read.
        set fn read<N>(self, name: N) -> Self;
        /// Adds this number of permits of a semaphore that has `of` permits.
        set fn permits<N>(self, name: N, permits: u32, of: u32) -> Self;
        /// The multi-lock.
        wrap fn build(self) -> Result<MultiLock>;
    }
}
