//! The semaphore: a number of permits, and their holders.

use std::time::Duration;

use super::{detachable, named};
use crate::blocking::{Acquired, Attempt, Guard};
use crate::{Handle, LockName, Result};

named! {
    /// A number of permits that holders take and give back: see [`Semaphore`](crate::Semaphore).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let licences = keeper.semaphore("licences", 5)?;
    /// let (one, four) = (licences.acquire()?, licences.acquire_many(4)?);
    /// assert!(licences.try_acquire()?.is_none());
    /// # drop((one, four));
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    Semaphore
}

detachable!(Semaphore);

impl Semaphore {
    /// The number of permits of the semaphore.
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// Waits in the queue for a permit, without a limit unless [`attempt`](Self::attempt) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn acquire(&self) -> Result<Guard> {
        self.attempt().acquire()
    }

    /// Takes a permit if one is free and the queue is empty, and returns `None` otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.attempt().try_acquire()
    }

    /// Waits in the queue for this number of permits at once. The permits are one lock: see
    /// [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire); [`Invalid`](crate::ErrorKind::Invalid) for no permits, and for more than
    /// the semaphore has.
    pub fn acquire_many(&self, permits: u32) -> Result<Guard> {
        self.attempt().acquire_many(permits)
    }

    /// Takes this number of permits at once if they are free and the queue is empty, and returns `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>> {
        self.attempt().try_acquire_many(permits)
    }
}

impl<G: Acquired> Attempt<'_, Semaphore, G> {
    /// Waits in the queue for a permit, without a limit unless [`wait`](Self::wait) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn acquire(self) -> Result<G> {
        self.acquire_many(1)
    }

    /// Waits in the queue for this number of permits at once, without a limit unless [`wait`](Self::wait) or the keeper
    /// sets one.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    pub fn acquire_many(self, permits: u32) -> Result<G> {
        let acquire = self.lock.inner.acquire_many(permits);
        self.hold(acquire)
    }
}

impl Attempt<'_, Semaphore> {
    /// Takes a permit if one is free and the queue is empty, and returns `None` otherwise. The attempt joins the queue
    /// only with [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_acquire(self) -> Result<Option<Guard>> {
        self.try_acquire_many(1)
    }

    /// Takes this number of permits at once if they are free and the queue is empty, and returns `None` otherwise.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    pub fn try_acquire_many(self, permits: u32) -> Result<Option<Guard>> {
        let acquire = self.lock.inner.try_acquire_many(permits);
        self.perhaps(acquire)
    }
}
