//! A file store under the fault suite.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::optimistic::{FileRegister, Register};
use lockkeeper::url::StoreUrl;
use lockkeeper::{FileStore, Keeper};
use lockkeeper_live::{KilledProcesses, LiveStore, Need};
use lockkeeper_testing::Crash;
use tempfile::TempDir;

/// A file in a folder of its own.
#[derive(Debug)]
pub(crate) struct InAFile(TempDir);

impl InAFile {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    /// What a process that is stopped in the middle of a write keeps shut.
    pub(crate) fn gate(&self) -> PathBuf {
        self.0.path().join("locks.db.gate")
    }

    pub(crate) async fn keeper(&self) -> Keeper {
        Keeper::builder(self.opened().await).connect().await.unwrap()
    }

    pub(crate) async fn opened(&self) -> FileStore {
        FileStore::new(self.path()).open().await.unwrap()
    }

    pub(crate) async fn registers(&self) -> FileRegister {
        self.opened().await.register()
    }
}

impl LiveStore for InAFile {
    const CAN: &'static [Need] = &[Need::Queue, Need::Detached, Need::Registers];
    /// In whole seconds.
    const LEAST_TTL: Duration = Duration::from_secs(1);
    const ON_CRASH: Crash = Crash::Frees;
    const KILLED_PROCESSES: KilledProcesses = KilledProcesses {
        processes: 4,
        tasks: 16,
        ttl: Duration::from_secs(10),
        // The locks of a killed process are free at once, but nothing here depends on how soon.
        lingers: Duration::from_secs(30),
        pause: Duration::from_secs(2),
        grants: 500,
    };

    fn start() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn url(&self) -> String {
        format!("file:{}", self.path().display())
    }

    async fn register(url: &str) -> Arc<dyn Register> {
        let url: StoreUrl = url.parse().unwrap();
        Arc::new(FileStore::from_url(&url).unwrap().open().await.unwrap().register())
    }
}
