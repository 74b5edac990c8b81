//! The multi-lock: several locks as one, all or nothing.

use std::time::Duration;

use super::handle;
use crate::blocking::{Attempt, MultiGuard};
use crate::{Error, LockName, Result};

handle! {
    /// Several locks as one, all or nothing: see [`MultiLock`](crate::MultiLock).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let guard = keeper.multi_lock(["account/7", "account/3"])?.lock()?;
    /// for account in guard.guards() {
    ///     println!("{}: fencing token {}", account.name(), account.token());
    /// }
    /// guard.release()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    MultiLock
}

impl MultiLock {
    /// Waits in the queue of one lock after the other, without a limit unless [`attempt`](Self::attempt) or the keeper
    /// sets one for all of them together.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(&self) -> Result<MultiGuard> {
        self.attempt().lock()
    }

    /// Takes the locks if all are free, and returns `None` if one is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(&self) -> Result<Option<MultiGuard>> {
        self.attempt().try_lock()
    }

    /// The names as they were typed, in the order in which an attempt acquires the locks.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.inner.names()
    }
}

impl Attempt<'_, MultiLock> {
    /// Waits in the queue of one lock after the other, without a limit unless [`wait`](Self::wait) or the keeper sets
    /// one for all of them together.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(self) -> Result<MultiGuard> {
        let acquire = self.lock.inner.lock();
        self.run(acquire).map(MultiGuard::new)
    }

    /// Takes the locks if all are free, and returns `None` if one is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(self) -> Result<Option<MultiGuard>> {
        let acquire = self.lock.inner.try_lock();
        Ok(self.run(acquire)?.map(MultiGuard::new))
    }
}

/// The builder of a multi-lock, with the names and modes of its locks, from
/// [`Keeper::multi`](crate::blocking::Keeper::multi): see [`MultiBuilder`](crate::MultiBuilder).
///
/// ```
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let report = keeper.multi().read("prices").lock("report").permits("connections", 2, 10).build()?;
/// let guard = report.lock()?;
/// # guard.release()?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is built"]
pub struct MultiBuilder {
    inner: crate::MultiBuilder,
}

impl MultiBuilder {
    pub(in crate::blocking) fn new(inner: crate::MultiBuilder) -> Self {
        Self { inner }
    }

    /// Adds an exclusive lock: a mutex, or a lock to write.
    pub fn lock<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Self::new(self.inner.lock(name))
    }

    /// Adds a shared lock: a lock to read.
    pub fn read<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Self::new(self.inner.read(name))
    }

    /// Adds this number of permits of a semaphore that has `of` permits.
    pub fn permits<N>(self, name: N, permits: u32, of: u32) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Self::new(self.inner.permits(name, permits, of))
    }

    /// # Errors
    /// As [`MultiBuilder::build`](crate::MultiBuilder::build).
    pub fn build(self) -> Result<MultiLock> {
        self.inner.build().map(MultiLock::new)
    }
}
