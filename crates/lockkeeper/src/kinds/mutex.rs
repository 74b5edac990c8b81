//! The mutex: one holder at a time.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName};

/// A lock with one holder at a time, on all machines that use the same store.
///
/// First come, first served: [`lock`](Self::lock) joins the queue, and no attempt overtakes
/// another. The tasks of one process queue behind each other, and share one place in the store's
/// queue. [`Acquire::unfair`] waits without a place in the queue. A mutex is the write lock of the
/// [read-write lock](crate::RwLock) of the same name.
///
/// A `Mutex` is cheap to clone. It holds nothing by itself.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let stock = keeper.mutex("stock/42")?;
/// let guard = stock.lock().await?;
/// println!("fencing token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    lock: Named,
}

impl Mutex {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lock: Named::new(engine, name) }
    }

    /// Waits in the queue for the lock, without a limit unless [`Acquire::wait`] or the keeper sets
    /// one.
    pub fn lock(&self) -> Acquire<Guard> {
        self.lock.acquire(MAX, MAX)
    }

    /// Takes the lock if it is free, and returns `None` if it is not. The attempt joins the queue
    /// only with [`Acquire::wait`].
    pub fn try_lock(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(MAX, MAX)
    }
}

settings!(Mutex);
