//! The leadership: the guard of an election.

use std::fmt;

use crate::{Error, FencingToken, Guard, Lost, ReleaseRequested, Result};

/// The maximum length of a candidate's value, in bytes.
const VALUE_MAX: usize = 64 * 1024;

/// A leadership of an [`Election`](crate::Election). Dropping it resigns in the background.
#[must_use = "if unused, the leadership is given up at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn into_guard(self) -> Guard {
        self.guard
    }

    /// The guard of its lock, with the token, the loss and [`scope`](Guard::scope).
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The fencing token of this leadership: see [`Guard::token`].
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Whether this candidate still leads, as far as this process can know, without I/O.
    ///
    /// # Errors
    /// As [`Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// A future that completes with the reason when the leadership is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// A future that completes when an operator asks the leader to resign: see
    /// [`Guard::release_requested`].
    pub fn release_requested(&self) -> ReleaseRequested {
        self.guard.release_requested()
    }

    /// Shows another value from now on, of at most 64 KiB.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let mut leadership = scheduler.campaign("starting").await?;
    /// leadership.proclaim("ready").await?;
    /// assert_eq!(scheduler.leader().await?.expect("a leader").value, b"ready");
    /// # leadership.resign().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a value that is too long;
    /// [`Lost`](crate::ErrorKind::Lost) when the leadership is lost;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the store cannot change a value;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store did not answer: the store may
    /// then show either value.
    ///
    /// # Cancel safety
    /// Once polled, the call goes on in the background when the future is dropped.
    pub async fn proclaim(&mut self, value: impl Into<Vec<u8>>) -> Result<()> {
        proclaim(&self.guard, value.into()).await
    }

    /// Gives the leadership up, and waits until the store acknowledges this, like
    /// [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// Once polled, the call goes on in the background when the future is dropped.
    pub async fn resign(self) -> Result<()> {
        self.guard.release().await
    }
}

pub(crate) async fn proclaim(guard: &Guard, value: Vec<u8>) -> Result<()> {
    check_value(&value).map_err(|error| error.about(guard.name().clone()))?;
    guard.show(value.into()).await
}

/// Checks the length of a candidate's value.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the value is too long.
pub(super) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_MAX {
        return Ok(());
    }
    let problem = format!("the value of the candidate has {} bytes", value.len());
    Err(Error::invalid(problem).with_remedy(format!("at most {VALUE_MAX}")))
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.guard).finish()
    }
}
