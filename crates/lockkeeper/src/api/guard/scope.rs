//! Work under a guard that ends with the loss of the lock.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use super::Guard;
use crate::{Error, ErrorKind, Lost, Result};

impl Guard {
    /// Runs `f` while the lock is held. A loss drops `f` at its next await, since a future cannot
    /// be dropped elsewhere. The output of `f` is a `Result` whose error type converts from
    /// [`Error`], so the work and the lock share one `Result`, as with
    /// [`Acquire::with`](crate::Acquire::with). Work that cannot fail runs in
    /// [`while_held`](Self::while_held).
    ///
    /// ```
    /// async fn write_report() -> Result<u32, Box<dyn std::error::Error>> {
    ///     Ok("12".parse()?)
    /// }
    ///
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().await?;
    /// let pages = guard.scope(write_report()).await?;
    /// assert_eq!(pages, 12);
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when the lock is lost
    /// before `f` completes, or while it does.
    ///
    /// # Cancel safety
    /// Dropping the future drops `f`; the lock stays held.
    pub async fn scope<T, E: From<Error>>(
        &self,
        f: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        scoped(|| self.check(), self.lost(), f).await
    }

    /// Like [`scope`](Self::scope), for work that cannot fail: returns the value of `f`, or the
    /// loss.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().await?;
    /// let pages = guard.while_held(async { 12 }).await?;
    /// assert_eq!(pages, 12);
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost before `f` completes, or while it
    /// does.
    ///
    /// # Cancel safety
    /// Dropping the future drops `f`; the lock stays held.
    pub async fn while_held<F: Future>(&self, f: F) -> Result<F::Output> {
        self.scope(async { Ok(f.await) }).await
    }
}

/// Polls `f` for as long as `check` succeeds, and drops `f` when a lock is lost. An error of `f`
/// counts before a loss.
pub(crate) async fn scoped<T, E: From<Error>>(
    check: impl Fn() -> Result<()>,
    mut lost: Lost,
    f: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut f = pin!(f);
    let value = std::future::poll_fn(|cx| {
        check()?;
        if let Poll::Ready(error) = lost.poll_error(cx) {
            return Poll::Ready(Err(E::from(error)));
        }
        f.as_mut().poll(cx)
    })
    .await?;
    check()?;
    Ok(value)
}

/// The result of work under a lock: `outcome`, which is the value, the work's own error or the
/// loss; or a loss that the release has found.
pub(crate) fn covered<T, E: From<Error>>(
    outcome: Result<T, E>,
    released: Result<()>,
) -> Result<T, E> {
    match (outcome, released) {
        (Ok(_), Err(error)) if error.kind() == ErrorKind::Lost => Err(E::from(error)),
        (outcome, _) => outcome,
    }
}
