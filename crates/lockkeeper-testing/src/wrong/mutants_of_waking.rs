//! Mutants of wake-ups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::Mutant;
use lockkeeper::Result;
use lockkeeper::store::{ClaimKey, Interest, Live, LiveState, Revision, Store, Wake, Withdrawal};
use lockkeeper::time::Clock;

/// Only a release wakes waiters. A client that removes a dead holder takes the locks that are free
/// for it, and the store wakes no other client.
#[derive(Debug, Default)]
pub struct SilentPurge {
    releases: AtomicU64,
}

#[async_trait]
impl Mutant for SilentPurge {
    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        right.withdraw(key, tombstone).await
    }

    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        let before = self.releases.load(Ordering::SeqCst);
        let wake = right.wait(what, seen, within).await?;
        if wake == Wake::Elapsed || self.releases.load(Ordering::SeqCst) != before {
            return Ok(wake);
        }
        sleep_through(within).await
    }
}

/// A wait reports only changes after it began, and misses changes between the claim and the wait.
#[derive(Debug, Default)]
pub struct ListensOnlyWhileItWaits;

#[async_trait]
impl Mutant for ListensOnlyWhileItWaits {
    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        match right.wait(what, seen, Duration::ZERO).await? {
            Wake::Elapsed => right.wait(what, seen, within).await,
            _ => sleep_through(within).await,
        }
    }
}

/// A pushed grant starts the lease of a holder, though the claim may have died while it waited.
#[derive(Debug, Default)]
pub struct PushThatGivesTime;

#[async_trait]
impl Mutant for PushThatGivesTime {
    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        let wake = right.wait(what, seen, within).await?;
        if let (Interest::Claim(key), Wake::Granted { .. }) = (what, &wake) {
            let live = Live { key: key.clone(), state: LiveState::Granted };
            right.renew(&key.session, &[live]).await?;
        }
        Ok(wake)
    }
}

pub(super) async fn sleep_through(within: Duration) -> Result<Wake> {
    Clock::boot().sleep(within).await;
    Ok(Wake::Elapsed)
}
