//! What an administrator does with locks: look at all of them.

use std::sync::Arc;

use crate::Result;
use crate::engine::Engine;
use crate::info::LockInfo;

/// The administrator's operations, from [`Keeper::admin`](crate::Keeper::admin).
#[derive(Clone, Debug)]
pub struct Admin {
    engine: Arc<Engine>,
}

impl Admin {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine) }
    }

    /// The locks that somebody holds or waits for, whose names begin with the keeper's prefix and `prefix`: sorted by
    /// name, at most `limit`.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockInfo>> {
        self.engine.usable()?;
        let prefix = format!("{}{prefix}", self.engine.settings.prefix);
        let mut locks = Vec::new();
        for name in self.engine.names(prefix, limit).await? {
            let line = self.engine.line(&name).await?;
            // Between the two looks everybody may have left.
            if !line.entries.is_empty() {
                locks.push(LockInfo::new(name, line));
            }
        }
        Ok(locks)
    }
}
