//! Looking at the store, for people.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::store::{Interest, Line, Revision};
use crate::{LockName, Result};

/// How long to wait for the store's word before looking all the same: a claim whose time is over is gone from the line
/// without anybody having changed it.
const LOOK: Duration = Duration::from_secs(1);

/// One who looks at a line again and again.
#[derive(Debug)]
pub(crate) struct Lookout {
    engine: Arc<Engine>,
    pub(crate) name: LockName,
    seen: Option<Revision>,
}

impl Lookout {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { engine: Arc::clone(engine), name, seen: None }
    }

    /// The line: at once the first time, and then when the store thinks that it is worth while, or when time has
    /// passed. It only reads, and may be dropped.
    pub(crate) async fn look(&mut self) -> Result<Line> {
        self.engine.usable()?;
        let line = match self.seen {
            Some(seen) => self.engine.line_after(&self.name, seen, LOOK).await?,
            None => self.engine.line(&self.name).await?,
        };
        self.seen = Some(line.revision);
        Ok(line)
    }
}

impl Engine {
    /// The line of this lock. It only reads, and may be dropped.
    pub(crate) async fn line(&self, name: &LockName) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.store), name.clone());
        let line = self.runtime.carry(Box::pin(async move { store.line(&of).await })).await;
        line.map_err(|error| self.describe(error, name))
    }

    /// The line once the store thinks that it has changed since it was `seen`, or `within` is over. It only reads, and
    /// may be dropped.
    async fn line_after(&self, name: &LockName, seen: Revision, within: Duration) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.store), name.clone());
        let look = async move {
            store.wait(Interest::Name(&of), seen, within).await?;
            store.line(&of).await
        };
        self.runtime.carry(Box::pin(look)).await.map_err(|error| self.describe(error, name))
    }

    /// The names that begin with this. It only reads, and may be dropped.
    pub(crate) async fn names(&self, prefix: String, limit: usize) -> Result<Vec<LockName>> {
        let store = Arc::clone(&self.store);
        let ask = async move {
            let Some(admin) = store.admin() else { return Ok(Vec::new()) };
            admin.names(&prefix, limit).await
        };
        self.runtime.carry(Box::pin(ask)).await.map_err(|error| error.at(&self.store.to_string()))
    }
}
