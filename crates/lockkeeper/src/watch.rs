//! Watching one lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::info::LockInfo;
use crate::store::{IdHash, Line, Revision};
use crate::{LockName, Result};

/// How long to wait for the store's word before looking all the same: a claim whose time is over is gone from the line
/// without anybody having changed it.
const LOOK: Duration = Duration::from_secs(1);

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
    engine: Arc<Engine>,
    name: LockName,
    seen: Option<Seen>,
}

/// What the caller was told last.
struct Seen {
    revision: Revision,
    claims: Vec<(IdHash, bool)>,
}

impl LockWatch {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { engine: Arc::clone(engine), name, seen: None }
    }

    /// The lock as it is, once other claims hold it or wait for it than were seen last; at once the first time.
    ///
    /// Where the store pushes, that is as soon as it changes; elsewhere, and for claims that end by themselves, within
    /// a second. What came and went between two looks is not seen.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer; it may be called again.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped; no change is missed, but quick ones may be seen as one.
    pub async fn changed(&mut self) -> Result<LockInfo> {
        loop {
            let line = self.look().await?;
            let claims: Vec<_> = line.entries.iter().map(|entry| (entry.id, entry.granted)).collect();
            let is_news = self.seen.as_ref().is_none_or(|seen| seen.claims != claims);
            self.seen = Some(Seen { revision: line.revision, claims });
            if is_news {
                return Ok(LockInfo::new(self.name.clone(), line));
            }
        }
    }

    /// The line, when the store thinks that it is worth while, or when time has passed.
    async fn look(&self) -> Result<Line> {
        self.engine.usable()?;
        match &self.seen {
            Some(seen) => self.engine.line_after(&self.name, seen.revision, LOOK).await,
            None => self.engine.line(&self.name).await,
        }
    }
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWatch").field("name", &self.name).finish_non_exhaustive()
    }
}
