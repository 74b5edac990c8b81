//! The mutex: one holder at a time.

use std::time::Duration;

use super::{detachable, named};
use crate::blocking::{Acquired, Attempt, Guard};
use crate::{Handle, LockName, Result};

named! {
    /// A lock that one holder has at a time, on every machine that uses the same store: see [`Mutex`](crate::Mutex).
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
    /// Waits in line for the lock, for ever; [`attempt`](Self::attempt) sets a limit.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(&self) -> Result<Guard> {
        self.attempt().lock()
    }

    /// Takes the lock if it is free, and answers `None` if it is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.attempt().try_lock()
    }
}

impl<G: Acquired> Attempt<'_, Mutex, G> {
    /// Waits in line for the lock, for ever unless [`wait`](Self::wait) says otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(self) -> Result<G> {
        let acquire = self.lock.inner.lock();
        self.hold(acquire)
    }
}

impl Attempt<'_, Mutex> {
    /// Takes the lock if it is free, and answers `None` if it is not. Never enters the line unless
    /// [`wait`](Self::wait) says so.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(self) -> Result<Option<Guard>> {
        let acquire = self.lock.inner.try_lock();
        self.perhaps(acquire)
    }
}
