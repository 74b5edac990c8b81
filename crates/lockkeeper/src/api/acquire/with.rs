//! Work under a lock, in one call: acquire, run, release.

use std::sync::Arc;

use super::super::guard::{Guard, covered, scoped};
use super::Acquire;
use crate::{Error, Leadership, MultiGuard, Result};

impl Acquire<Guard> {
    /// Acquires the lock, runs `f` with the guard, and releases it.
    ///
    /// A loss drops the future of `f` at its next await. If `f` fails, the result is its error,
    /// whatever else went wrong. If `f` succeeds but the lock was lost before the end of `f`, the
    /// result is the loss. If only the release fails, the lock covered the work, and the result is
    /// the value of `f`.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let stock = keeper.mutex("stock/42")?;
    /// let sold = stock.lock().with(async |guard| {
    ///     guard.check()?;
    ///     Ok::<_, lockkeeper::Error>(3)
    /// });
    /// assert_eq!(sold.await?, 3);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of the attempt and of `f`, and [`Lost`](crate::ErrorKind::Lost).
    ///
    /// # Cancel safety
    /// Dropping the future drops the future of `f` and the guard: the lock is released in the
    /// background.
    pub async fn with<T, E: From<Error>>(
        self,
        f: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.await?;
        let outcome = guard.scope(f(&guard)).await;
        covered(outcome, guard.release().await)
    }
}

impl Acquire<MultiGuard> {
    /// Acquires the locks, runs `f` with the guard, and releases the locks, like the `with` of an
    /// attempt on one lock.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let transfer = keeper.multi_lock(["account/7", "account/3"])?;
    /// let tokens = transfer.lock().with(async |guard| {
    ///     guard.check()?;
    ///     Ok::<_, lockkeeper::Error>(guard.guards().len())
    /// });
    /// assert_eq!(tokens.await?, 2);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of the attempt and of `f`, and [`Lost`](crate::ErrorKind::Lost), which names the
    /// lock.
    ///
    /// # Cancel safety
    /// Dropping the future drops the future of `f` and the guard: the locks are released in the
    /// background.
    pub async fn with<T, E: From<Error>>(
        self,
        f: impl AsyncFnOnce(&MultiGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.await?;
        let outcome = guard.scope(f(&guard)).await;
        covered(outcome, guard.release().await)
    }
}

impl Acquire<Leadership> {
    /// Campaigns, runs `f` with the leadership, and resigns, like the `with` of an attempt on one
    /// lock.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let term = scheduler.campaign("10.0.0.7:8080").with(async |leadership| {
    ///     leadership.proclaim("ready").await?;
    ///     Ok::<_, lockkeeper::Error>(())
    /// });
    /// term.await?;
    /// assert!(scheduler.leader().await?.is_none());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of the attempt and of `f`, and [`Lost`](crate::ErrorKind::Lost).
    ///
    /// # Cancel safety
    /// Dropping the future drops the future of `f` and the leadership: the leader resigns in the
    /// background.
    pub async fn with<T, E: From<Error>>(
        self,
        f: impl AsyncFnOnce(&mut Leadership) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut leadership = self.await?;
        let (hold, lost) = (Arc::clone(leadership.guard().hold()), leadership.lost());
        let outcome = scoped(|| hold.check(), lost, f(&mut leadership)).await;
        covered(outcome, leadership.resign().await)
    }
}
