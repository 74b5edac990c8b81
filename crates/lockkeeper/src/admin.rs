//! What an administrator does with locks: look at all of them.

use std::sync::Arc;

use crate::Result;
use crate::engine::Engine;
use crate::info::LockInfo;
use crate::runtime::inside;

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
        let Some(admin) = self.engine.store.admin() else { return Ok(Vec::new()) };
        let prefix = format!("{}{prefix}", self.engine.settings.prefix);
        let names = inside(&self.engine.runtime, admin.names(&prefix, limit)).await;
        let mut locks = Vec::new();
        for name in names.map_err(|e| e.at(&self.engine.store.to_string()))? {
            let line = inside(&self.engine.runtime, self.engine.store.line(&name)).await;
            let line = line.map_err(|e| self.engine.describe(e, &name))?;
            // Between the two looks everybody may have left.
            if !line.entries.is_empty() {
                locks.push(LockInfo::new(name, line));
            }
        }
        Ok(locks)
    }
}
