//! rslock, as in its documentation.

use std::time::Duration;

use anyhow::{Result, ensure};
use compare_common::client::tasks::{Client, Lock};
use rslock::{LockGuard, LockManager};

/// The default of rslock.
pub(crate) const DELAY: Duration = Duration::from_millis(200);
/// A setting that asks often instead of waiting; the delay is a random time between 0 and this.
pub(crate) const SHORT_DELAY: Duration = Duration::from_millis(2);

const TTL: Duration = Duration::from_secs(30);

pub(crate) struct Rslock(LockManager);

impl Rslock {
    /// One server, or those of a Redlock.
    pub(crate) async fn connect(urls: Vec<String>, delay: Duration) -> Result<Self> {
        let mut manager = LockManager::new(urls);
        manager.set_retry(u32::MAX, delay);
        Ok(Self(manager))
    }
}

impl Client for Rslock {
    type Lock = Named;

    async fn lock(&self, name: &str, _nth: usize) -> Result<Named> {
        Ok(Named { manager: self.0.clone(), name: name.to_owned() })
    }
}

pub(crate) struct Named {
    manager: LockManager,
    name: String,
}

impl Lock for Named {
    type Guard = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.manager.acquire(self.name.as_str(), TTL).await?)
    }

    async fn release(&self, guard: LockGuard, awaited: bool) -> Result<()> {
        ensure!(awaited, "rslock has no release that is not awaited");
        guard.release().await;
        Ok(())
    }

    fn is_lost(&self, guard: &LockGuard) -> bool {
        guard.lock.validity_time == 0
    }
}
