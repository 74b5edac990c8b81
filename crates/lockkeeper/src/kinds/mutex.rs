//! The mutex: one holder at a time.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName};

/// A lock that one holder has at a time, on every machine that uses the same store.
///
/// First come, first served: who asks with [`lock`](Self::lock) stands in line, and nobody is overtaken. Tasks of one
/// process stand behind each other, and have one place in line together. [`Acquire::unfair`] waits beside the line. It
/// is the write lock of the [read-write lock](crate::RwLock) of the same name.
///
/// A handle is cheap to clone and holds nothing.
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

    /// Waits in line for the lock, for ever unless [`Acquire::wait`] says otherwise.
    pub fn lock(&self) -> Acquire<Guard> {
        self.lock.acquire(MAX, MAX)
    }

    /// Takes the lock if it is free, and answers `None` if it is not. Never enters the line unless [`Acquire::wait`]
    /// says so.
    pub fn try_lock(&self) -> Acquire<Option<Guard>> {
        self.lock.try_acquire(MAX, MAX)
    }
}

settings!(Mutex);
