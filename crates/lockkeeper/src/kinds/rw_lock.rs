//! The read-write lock: readers together, writers alone.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName};

/// A lock that many readers have together, or one writer alone.
///
/// First come, first served: a reader that comes after a waiting writer waits behind it, so that neither starves. What
/// that costs is that one slow reader holds up the writer behind it, and all readers behind the writer. Hence a second
/// read lock for the work that has one already can wait for ever, for a writer that waits for the first: hand the
/// guard down, or say who asks ([`Acquire::owner`]), which makes an error of it.
///
/// The write lock is the [mutex](crate::Mutex) of the same name. A writer can become a reader
/// ([`Guard::downgrade`]), and a lone reader the writer ([`Guard::try_upgrade`]).
///
/// A handle is cheap to clone and holds nothing.
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

    /// Waits in line to read, for ever unless [`Acquire::wait`] says otherwise.
    ///
    /// A reader beside others has a token of its own. A resource that checks tokens lets it in beside younger readers
    /// ([`FenceGate`](crate::fence::FenceGate)).
    pub fn read(&self) -> Acquire<Guard> {
        self.lock.acquire(1, MAX)
    }

    /// Takes the lock to read if no writer has it or waits for it, and answers `None` otherwise. Never enters the line
    /// unless [`Acquire::wait`] says so.
    pub fn try_read(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(1, MAX)
    }

    /// Waits in line to write, for ever unless [`Acquire::wait`] says otherwise.
    pub fn write(&self) -> Acquire<Guard> {
        self.lock.acquire(MAX, MAX)
    }

    /// Takes the lock to write if it is free, and answers `None` if it is not. Never enters the line unless
    /// [`Acquire::wait`] says so.
    pub fn try_write(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(MAX, MAX)
    }
}

settings!(RwLock);
