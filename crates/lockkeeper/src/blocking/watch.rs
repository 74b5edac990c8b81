//! Watching a lock, and the sessions of a keeper.

use std::time::Duration;

use super::park::{wait, wait_for};
use crate::{LockInfo, Result, SessionState};

/// A watch on one lock, from [`Keeper::watch`](super::Keeper::watch).
///
/// ```
/// # fn f() -> lockkeeper::Result<()> {
/// let keeper = lockkeeper::blocking::Keeper::memory();
/// let mut watch = keeper.watch("stock/42")?;
/// assert!(!watch.changed()?.is_held());
///
/// let guard = keeper.mutex("stock/42")?.lock()?;
/// assert!(watch.changed()?.is_held());
/// # guard.release()?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[derive(Debug)]
pub struct LockWatch {
    inner: crate::LockWatch,
}

impl LockWatch {
    pub(super) fn new(inner: crate::LockWatch) -> Self {
        Self { inner }
    }

    /// Waits until the holders or the waiters differ from those of the last call, and returns the lock. The first call
    /// returns at once. See [`LockWatch::changed`](crate::LockWatch::changed).
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer. The call may be repeated.
    /// [`Closed`](crate::ErrorKind::Closed) within a second after the keeper was shut down.
    pub fn changed(&mut self) -> Result<LockInfo> {
        wait(self.inner.changed())?
    }

    /// As [`changed`](Self::changed), for at most `d`. The result is `None` when nothing has changed by then.
    ///
    /// # Errors
    /// As [`changed`](Self::changed).
    pub fn changed_timeout(&mut self, d: Duration) -> Result<Option<LockInfo>> {
        wait_for(d, self.inner.changed())?.transpose()
    }
}

/// The state of a keeper's sessions, to read or to wait for; from [`Keeper::session`](super::Keeper::session).
#[derive(Clone, Debug)]
pub struct SessionWatch {
    inner: crate::SessionWatch,
}

impl SessionWatch {
    pub(super) fn new(inner: crate::SessionWatch) -> Self {
        Self { inner }
    }

    /// The worst state of the sessions.
    pub fn state(&self) -> SessionState {
        self.inner.state()
    }

    /// Waits for the next state, which differs from the last state that was seen. The result is `None` when the keeper
    /// is gone.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn changed(&mut self) -> Result<Option<SessionState>> {
        wait(self.inner.next())
    }

    /// As [`changed`](Self::changed), for at most `d`. The result is also `None` when nothing has changed by then.
    ///
    /// # Errors
    /// As [`changed`](Self::changed).
    pub fn changed_timeout(&mut self, d: Duration) -> Result<Option<SessionState>> {
        wait_for(d, self.inner.next()).map(Option::flatten)
    }
}
