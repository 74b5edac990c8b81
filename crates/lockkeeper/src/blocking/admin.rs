//! The operations of an administrator, without async.

use super::park::wait;
use crate::{Break, Error, LockInfo, LockName, Result, Target};

/// The administrator's operations, from [`Keeper::admin`](super::Keeper::admin): see [`Admin`](crate::Admin).
///
/// ```
/// use lockkeeper::blocking::Keeper;
/// use lockkeeper::{Break, Target};
///
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = Keeper::memory();
/// let guard = keeper.mutex("deploy/web")?.lock()?;
///
/// let admin = keeper.admin()?;
/// let holder = admin.list("deploy/", 100)?[0].holders[0].id;
/// assert!(admin.break_lock("deploy/web", Target::IdHash(holder), "runner-7 is gone", Break::Mark)?);
/// # drop(guard);
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Admin {
    inner: crate::Admin,
}

impl Admin {
    pub(super) fn new(inner: crate::Admin) -> Self {
        Self { inner }
    }

    /// The locks with a holder or a waiter whose names begin with `prefix`, sorted by name, at most `limit`. The list
    /// has no lock outside the keeper's prefix. See [`Admin::list`](crate::Admin::list).
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    pub fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockInfo>> {
        wait(self.inner.list(prefix, limit))?
    }

    /// Breaks the lock of one holder. The result is `false` when there is no such holder. See
    /// [`Admin::break_lock`](crate::Admin::break_lock).
    ///
    /// # Errors
    /// As [`Admin::break_lock`](crate::Admin::break_lock).
    pub fn break_lock<N>(&self, name: N, target: Target, reason: &str, how: Break) -> Result<bool>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        wait(self.inner.break_lock(name, target, reason, how))?
    }

    /// Asks the holders of a lock to release it, and breaks nothing. The result is `false` when the lock has no holder.
    /// See [`Admin::request_release`](crate::Admin::request_release).
    ///
    /// # Errors
    /// As [`Admin::request_release`](crate::Admin::request_release).
    pub fn request_release<N>(&self, name: N, reason: &str) -> Result<bool>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        wait(self.inner.request_release(name, reason))?
    }
}
