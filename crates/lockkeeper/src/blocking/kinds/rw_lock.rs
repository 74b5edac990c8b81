//! The read-write lock: readers together, writers alone.

use std::time::Duration;

use super::{detachable, named};
use crate::blocking::{Acquired, Attempt, Guard};
use crate::{Handle, LockName, Result};

named! {
    /// A lock that many readers hold together, or one writer alone: see [`RwLock`](crate::RwLock).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let (one, another) = (prices.read()?, prices.read()?);
    /// assert!(prices.try_write()?.is_none());
    /// # drop((one, another));
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    RwLock
}

detachable!(RwLock);

impl RwLock {
    /// Waits in the queue to read, without a limit unless [`attempt`](Self::attempt) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn read(&self) -> Result<Guard> {
        self.attempt().read()
    }

    /// Takes the lock to read if no writer has it or waits for it, and returns `None` otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_read(&self) -> Result<Option<Guard>> {
        self.attempt().try_read()
    }

    /// Waits in the queue to write, without a limit unless [`attempt`](Self::attempt) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn write(&self) -> Result<Guard> {
        self.attempt().write()
    }

    /// Takes the lock to write if it is free, and returns `None` if it is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_write(&self) -> Result<Option<Guard>> {
        self.attempt().try_write()
    }
}

impl<G: Acquired> Attempt<'_, RwLock, G> {
    /// Waits in the queue to read, without a limit unless [`wait`](Self::wait) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn read(self) -> Result<G> {
        let acquire = self.lock.inner.read();
        self.hold(acquire)
    }

    /// Waits in the queue to write, without a limit unless [`wait`](Self::wait) or the keeper sets one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn write(self) -> Result<G> {
        let acquire = self.lock.inner.write();
        self.hold(acquire)
    }
}

impl Attempt<'_, RwLock> {
    /// Takes the lock to read if no writer has it or waits for it, and returns `None` otherwise. The attempt joins the
    /// queue only with [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_read(self) -> Result<Option<Guard>> {
        let acquire = self.lock.inner.try_read();
        self.perhaps(acquire)
    }

    /// Takes the lock to write if it is free, and returns `None` if it is not. The attempt joins the queue only with
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_write(self) -> Result<Option<Guard>> {
        let acquire = self.lock.inner.try_write();
        self.perhaps(acquire)
    }
}
