//! Looking at the store, for people.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::store::{Interest, Line, Revision};
use crate::{LockName, Result};

impl Engine {
    /// The line of this lock. It only reads, and may be dropped.
    pub(crate) async fn line(&self, name: &LockName) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.store), name.clone());
        let line = self.runtime.carry(Box::pin(async move { store.line(&of).await })).await;
        line.map_err(|error| self.describe(error, name))
    }

    /// The line once the store thinks that it has changed since it was `seen`, or `within` is over. It only reads, and
    /// may be dropped.
    pub(crate) async fn line_after(&self, name: &LockName, seen: Revision, within: Duration) -> Result<Line> {
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
