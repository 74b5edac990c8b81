//! Watching one lock.

use std::fmt;
use std::sync::Arc;

use super::info::LockInfo;
use crate::engine::{Engine, LineObserver};
use crate::store::IdHash;
use crate::{LockName, Result};

/// A watch on one lock, from [`Keeper::watch`](crate::Keeper::watch).
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// let keeper = lockkeeper::Keeper::memory();
/// let mut watch = keeper.watch("stock/42")?;
/// assert!(!watch.changed().await?.is_held());
///
/// let guard = keeper.mutex("stock/42")?.lock().await?;
/// assert!(watch.changed().await?.is_held());
/// # guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
pub struct LockWatch {
    observer: LineObserver,
    /// The result of the last call: the claims, and whether each held the lock.
    last: Option<Vec<(IdHash, bool)>>,
}

impl LockWatch {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { observer: LineObserver::new(engine, name), last: None }
    }

    /// Waits until the holders or the waiters differ from those of the last call, and returns the
    /// lock. The first call returns at once.
    ///
    /// If the store pushes changes, the call returns as soon as the lock changes. Otherwise, and
    /// when a claim expires, it returns within a second. A lost push delays the call by at most 21
    /// s. A claim that comes and goes between two looks at the store is not reported.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer. The call may
    /// be repeated.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped. The watch misses no change, but may report
    /// several quick changes as one.
    pub async fn changed(&mut self) -> Result<LockInfo> {
        loop {
            let line = self.observer.look().await?;
            let claims: Vec<_> =
                line.entries.iter().map(|entry| (entry.id, entry.granted)).collect();
            if self.last.as_ref() != Some(&claims) {
                self.last = Some(claims);
                return Ok(self.observer.info(line));
            }
        }
    }
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWatch").field("name", &self.observer.name).finish_non_exhaustive()
    }
}
