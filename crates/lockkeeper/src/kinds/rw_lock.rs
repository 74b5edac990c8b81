//! The read-write lock: readers together, writers alone.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName};

/// A lock that many readers hold together, or one writer alone.
///
/// First come, first served: a reader that comes after a waiting writer waits behind it, so neither
/// starves. The cost: one slow reader holds up the writer behind it, and all readers behind that
/// writer. So work that holds a read lock and asks for a second one can wait for ever, behind a
/// writer that waits for the first. Pass the guard down instead, or set an owner
/// ([`Acquire::owner`]), which turns this wait into an error.
///
/// The write lock is the [mutex](crate::Mutex) of the same name. A writer can become a reader
/// ([`Guard::downgrade`]), and a lone reader the writer ([`Guard::try_upgrade`]).
///
/// An `RwLock` is cheap to clone. It holds nothing by itself.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let prices = keeper.rw_lock("prices")?;
/// let (one, another) = (prices.read().await?, prices.read().await?);
/// assert!(prices.try_write().await?.is_none());
/// one.release().await?;
/// another.release().await?;
///
/// let writer = prices.write().await?;
/// assert!(prices.try_read().await?.is_none());
/// # writer.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    lock: Named,
}

impl RwLock {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lock: Named::new(engine, name) }
    }

    /// Waits in the queue to read, without a limit unless [`Acquire::wait`] or the keeper sets one.
    ///
    /// Each reader has a token of its own. A resource that checks tokens lets an older reader in
    /// beside newer readers ([`FenceGate`](crate::fence::FenceGate)).
    pub fn read(&self) -> Acquire<Guard> {
        self.lock.acquire(1, MAX)
    }

    /// Takes the lock to read if no writer has it or waits for it, and returns `None` otherwise.
    /// The attempt joins the queue only with [`Acquire::wait`].
    pub fn try_read(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(1, MAX)
    }

    /// Waits in the queue to write, without a limit unless [`Acquire::wait`] or the keeper sets
    /// one.
    pub fn write(&self) -> Acquire<Guard> {
        self.lock.acquire(MAX, MAX)
    }

    /// Takes the lock to write if it is free, and returns `None` if it is not. The attempt joins
    /// the queue only with [`Acquire::wait`].
    pub fn try_write(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(MAX, MAX)
    }
}

settings!(RwLock);
