//! The memory store: the reference for every other store, and the store of tests.
//!
//! The store lives in one process and ends with it. Claims expire one by one
//! ([`Expiry::PerClaim`]). Tokens count from 1, and go on rising when an unused name is forgotten.
//!
//! [`Expiry::PerClaim`]: crate::store::Expiry::PerClaim

mod driver;
mod layout;
mod register;
mod wait;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;

pub use self::driver::DRIVER;
use self::layout::Lines;
pub use self::register::MemoryRegister;
use crate::store::{
    Admin, Amend, Amended, Asked, Capabilities, Claim, ClaimKey, Evict, Evicted, Interest, Line,
    Live, Losses, Opened, Renewal, Renewed, Revision, SessionId, SessionSpec, Store, StoreId,
    Target, Verdict, Wake, Withdrawal,
};
use crate::time::Clock;
use crate::{LockName, Result};
use lockkeeper_core::kit::Listeners;
use lockkeeper_core::sync::lock;

/// The capabilities of the store: all.
const CAPABILITIES: Capabilities = Capabilities::full();

/// A store in this process's memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    lines: Arc<Mutex<Lines>>,
    listeners: Arc<Listeners>,
    clock: Clock,
    id: StoreId,
}

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// An empty store on another clock, for tests on virtual time. The keepers of the store need
    /// the same clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { lines: Arc::default(), listeners: Arc::default(), clock, id: StoreId::random() }
    }

    /// The claims that hold a lock now.
    #[cfg(feature = "testing")]
    pub(crate) fn holders(&self) -> Vec<ClaimKey> {
        self.lines().holders(self.clock.now())
    }

    /// A panic with the mutex locked cannot leave a line in a state that breaks the rule of
    /// admission: each operation ends by granting from the front. So a poisoned mutex is used all
    /// the same.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        lock(&self.lines)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.capabilities().check(spec)?;
        self.lines().open(id, self.clock.now())?;
        Ok(Opened { ttl: spec.ttl })
    }

    async fn renew(&self, _session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let now = self.clock.now();
        let mut lines = self.lines();
        let claims: Vec<_> = live.iter().map(|l| lines.renew(l, now)).collect();
        let held =
            live.iter().zip(&claims).filter(|(_, renewal)| matches!(renewal, Renewal::Held { .. }));
        let requests = held.filter_map(|(l, _)| Some((l.key.id, lines.asked(&l.key)?))).collect();
        Ok(Renewed { claims, server_time: None, requests })
    }

    async fn close(&self, session: &SessionId, _live: &[Live]) -> Result<()> {
        self.lines().close(session, self.clock.now());
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.lines().claim(claim, self.clock.now())
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        Ok(self.lines().amend(key, number, change, self.clock.now()))
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        Ok(self.lines().withdraw(key, tombstone, self.clock.now()))
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        Ok(wait::wait(self, interest, seen, within).await)
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        Ok(self.lines().line(name, self.clock.now()))
    }

    async fn id(&self) -> Result<StoreId> {
        Ok(self.id)
    }

    fn on_loss(&self, listener: Losses) {
        self.listeners.add(listener);
    }
}

#[async_trait]
impl Admin for MemoryStore {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let (mut lines, now) = (self.lines(), self.clock.now());
        let names = lines.names(prefix, after, limit, now).into_iter();
        Ok(names.map(|name| (name.clone(), Ok(lines.line(&name, now)))).collect())
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        Ok(self.lines().evict(name, target, how, by, reason, self.clock.now()))
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let asked = Asked { by: by.into(), reason: reason.into() };
        let ids = self.lines().request(name, &asked, self.clock.now());
        for id in &ids {
            self.listeners.notify(|losses| losses.requested(*id, &asked));
        }
        Ok(!ids.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;

    use super::*;
    use crate::Keeper;

    async fn token(keeper: &Keeper, name: &str) -> u64 {
        keeper.mutex(name).unwrap().lock().await.unwrap().token().get()
    }

    #[tokio::test]
    async fn two_stores_have_nothing_in_common() {
        let (one, two) = (Keeper::memory(), Keeper::memory());
        let held = one.mutex("lock").unwrap().lock().await.unwrap();
        assert_eq!(token(&two, "lock").await, held.token().get());
    }

    #[tokio::test]
    async fn tokens_go_on_when_unused_names_are_forgotten() {
        let store = MemoryStore::new();
        let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
        let mut last = 0;
        for _ in 0..3 {
            last = token(&keeper, "first").await;
        }
        let mut name = 0;
        while store.line(&"first".parse().unwrap()).await.unwrap().last_token.is_some() {
            assert!(name < 100_000, "no name is ever forgotten");
            token(&keeper, &format!("other-{name}")).await;
            name += 1;
        }
        assert!(token(&keeper, "first").await > last);
    }

    async fn keeper(store: &MemoryStore) -> Keeper {
        Keeper::builder(store.clone())
            .clock(store.clock.clone())
            .ttl(Duration::from_secs(30))
            .connect()
            .await
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_notices_a_minimum_hold_that_ends_before_the_lease() {
        let store = MemoryStore::with_clock(Clock::tokio());
        let (holder, waiter) = (keeper(&store).await, keeper(&store).await);
        let start = store.clock.now();
        let held =
            holder.mutex("n").unwrap().lock().min_hold(Duration::from_millis(300)).await.unwrap();
        let waiting = tokio::spawn(waiter.mutex("n").unwrap().lock().into_future());
        store.clock.sleep(Duration::from_millis(100)).await;
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        let took = store.clock.now().saturating_since(start);
        assert!(
            took >= Duration::from_millis(300) && took < Duration::from_millis(310),
            "{took:?}"
        );
    }

    /// No client claims these names again.
    #[tokio::test(start_paused = true)]
    async fn names_that_were_kept_are_forgotten() {
        let store = MemoryStore::with_clock(Clock::tokio());
        let keeper = keeper(&store).await;
        for i in 0..10_000 {
            let guard = keeper
                .mutex(format!("n/{i}"))
                .unwrap()
                .lock()
                .min_hold(Duration::from_millis(10))
                .await
                .unwrap();
            guard.release().await.unwrap();
            store.clock.sleep(Duration::from_millis(1)).await;
        }
        let left = store.lines().count();
        assert!(left < 5000, "{left} of 10 000");
    }
}
