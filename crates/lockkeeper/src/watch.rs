//! Watching one lock.

use std::fmt;
use std::sync::Arc;

use crate::engine::{Engine, Lookout};
use crate::info::LockInfo;
use crate::store::IdHash;
use crate::{LockName, Result};

/// A lock that is watched, from [`Keeper::watch`](crate::Keeper::watch).
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
    lookout: Lookout,
    /// What the caller was told last: which claims there were, and whether they held the lock.
    told: Option<Vec<(IdHash, bool)>>,
}

impl LockWatch {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lookout: Lookout::new(engine, name), told: None }
    }

    /// The lock as it is, once other claims hold it or wait for it than were seen last; at once the first time.
    ///
    /// Where the store pushes, that is as soon as it changes; elsewhere, and for claims that end by themselves, within
    /// a second. A push that was lost costs 21 s at most. What came and went between two looks is not seen.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer; it may be called again.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped; no change is missed, but quick ones may be seen as one.
    pub async fn changed(&mut self) -> Result<LockInfo> {
        loop {
            let line = self.lookout.look().await?;
            let claims: Vec<_> = line.entries.iter().map(|entry| (entry.id, entry.granted)).collect();
            if self.told.as_ref() != Some(&claims) {
                self.told = Some(claims);
                return Ok(self.lookout.info(line));
            }
        }
    }
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWatch").field("name", &self.lookout.name).finish_non_exhaustive()
    }
}
