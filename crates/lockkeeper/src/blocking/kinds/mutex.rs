//! The mutex: one holder at a time.

use std::time::Duration;

use super::{detachable, named};
use crate::blocking::{Acquired, Attempt, Guard};
use crate::{Handle, LockName, Result};

named! {
    /// A lock with one holder at a time, on all machines that use the same store: see [`Mutex`](crate::Mutex).
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
    Mutex
}

detachable!(Mutex);

impl Mutex {
    /// Waits in the queue for the lock, without a limit unless [`attempt`](Self::attempt) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(&self) -> Result<Guard> {
        self.attempt().lock()
    }

    /// Takes the lock if it is free, and returns `None` if it is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.attempt().try_lock()
    }
}

impl<G: Acquired> Attempt<'_, Mutex, G> {
    /// Waits in the queue for the lock, without a limit unless [`wait`](Self::wait) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(self) -> Result<G> {
        let acquire = self.lock.inner.lock();
        self.hold(acquire)
    }
}

impl Attempt<'_, Mutex> {
    /// Takes the lock if it is free, and returns `None` if it is not. The attempt joins the queue only with
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(self) -> Result<Option<Guard>> {
        let acquire = self.lock.inner.try_lock();
        self.perhaps(acquire)
    }
}
