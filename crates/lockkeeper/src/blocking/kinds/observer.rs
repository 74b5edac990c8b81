//! Observing the leaders of an election.

use std::time::Duration;

use crate::blocking::park::{wait, wait_for};
use crate::{Leader, Result};

/// Reports the leaders of an election, from [`Election::observe`](crate::blocking::Election::observe).
///
/// ```
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let scheduler = keeper.election("scheduler")?;
/// let mut observer = scheduler.observe();
/// assert!(observer.next()?.is_none());
///
/// let leadership = scheduler.campaign("10.0.0.7:8080")?;
/// assert_eq!(observer.next()?.expect("a leader").value, b"10.0.0.7:8080");
/// # leadership.resign()?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[derive(Debug)]
pub struct Observer {
    inner: crate::Observer,
}

impl Observer {
    pub(super) fn new(inner: crate::Observer) -> Self {
        Self { inner }
    }

    /// Waits for the next change, and returns the leader, or `None` when the election has none. The first call returns
    /// at once. A later call returns when the leader has changed, or shows another value. See
    /// [`Observer::next`](crate::Observer::next).
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer. The call may be repeated.
    /// [`Closed`](crate::ErrorKind::Closed) within a second after the keeper was shut down.
    #[allow(clippy::should_implement_trait, reason = "a vacancy is an item, and not the end")]
    pub fn next(&mut self) -> Result<Option<Leader>> {
        wait(self.inner.next())?
    }

    /// As [`next`](Self::next), for at most `d`. `Some(None)` is a vacancy, and `None` means that nothing has changed.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_timeout(&mut self, d: Duration) -> Result<Option<Option<Leader>>> {
        wait_for(d, self.inner.next())?.transpose()
    }
}
