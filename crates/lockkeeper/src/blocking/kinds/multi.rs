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
    /// Waits in line for one after the other, for ever; [`attempt`](Self::attempt) sets a limit for all of them.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(&self) -> Result<MultiGuard> {
        self.attempt().lock()
    }

    /// Takes them if all are free, and answers `None` if one is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(&self) -> Result<Option<MultiGuard>> {
        self.attempt().try_lock()
    }

    /// The names, as they are typed, in the order in which they are acquired.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.inner.names()
    }
}

impl Attempt<'_, MultiLock> {
    /// Waits in line for one after the other, for ever unless [`wait`](Self::wait) says otherwise: that is the time for
    /// all of them.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn lock(self) -> Result<MultiGuard> {
        let acquire = self.lock.inner.lock();
        self.run(acquire).map(MultiGuard::new)
    }

    /// Takes them if all are free, and answers `None` if one is not.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_lock(self) -> Result<Option<MultiGuard>> {
        let acquire = self.lock.inner.try_lock();
        Ok(self.run(acquire)?.map(MultiGuard::new))
    }
}

/// Says which locks a multi-lock is of, and how each is held, from [`Keeper::multi`](crate::blocking::Keeper::multi):
/// see [`MultiBuilder`](crate::MultiBuilder).
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

    /// This one exclusively: a mutex, or a lock to write.
    pub fn lock<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Self::new(self.inner.lock(name))
    }

    /// This one to read.
    pub fn read<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Self::new(self.inner.read(name))
    }

    /// So many permits of a semaphore that has `of`.
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
