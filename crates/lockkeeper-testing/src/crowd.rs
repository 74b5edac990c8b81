//! The suite with data of others around every lock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::{Crash, Harness, ServerClock, Time, Ttls};
use lockkeeper::layer::Faults;
use lockkeeper::store::{Claim, ClaimId, Store, Verdict, forward_store};
use lockkeeper::time::Clock;
use lockkeeper::{KeeperBuilder, LockName, Result};

/// A store with data of others around its locks. [`Harness::crowd`] puts them there before a name
/// is claimed for the first time, and after each claim that joined its line. The outcome of no case
/// may change by this.
///
/// ```
/// lockkeeper_testing::suite! {
///     mod memory_store_crowded;
///     // An example only: no other program has access to this store.
///     harness = lockkeeper_testing::Crowded<lockkeeper_testing::MemoryHarness>;
///     lacks = [SessionExpiry];
///     left_out = 4
/// }
/// ```
#[derive(Debug)]
pub struct Crowded<H>(Arc<Crowd<H>>);

struct Crowd<H> {
    harness: H,
    /// For each name, the claims that were followed by another round.
    seen: Mutex<HashMap<LockName, HashSet<ClaimId>>>,
}

impl<H: Harness> Crowd<H> {
    async fn before(&self, claim: &Claim) {
        let name = &claim.key.name;
        let is_first = match self.seen.lock().unwrap().entry(name.clone()) {
            Entry::Vacant(entry) => entry.insert(HashSet::new()).is_empty(),
            Entry::Occupied(_) => false,
        };
        if is_first {
            self.harness.crowd(name, 0).await;
        }
    }

    async fn after(&self, claim: &Claim, verdict: &Verdict) {
        if !matches!(verdict, Verdict::Granted { .. } | Verdict::Queued { .. }) {
            return;
        }
        let name = &claim.key.name;
        let round = {
            let mut seen = self.seen.lock().unwrap();
            let seen = seen.entry(name.clone()).or_default();
            seen.insert(claim.key.id).then_some(seen.len())
        };
        if let Some(round) = round {
            self.harness.crowd(name, round).await;
        }
    }
}

impl<H> fmt::Debug for Crowd<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crowd").finish_non_exhaustive()
    }
}

impl<H: Harness> Harness for Crowded<H> {
    const TIME: Time = H::TIME;
    const ON_CRASH: Crash = H::ON_CRASH;
    const WAITERS_DIE_FIRST: bool = H::WAITERS_DIE_FIRST;
    const NAME_MAX: usize = H::NAME_MAX;

    async fn start() -> Self {
        Self(Arc::new(Crowd { harness: H::start().await, seen: Mutex::default() }))
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(Beside { store: self.0.harness.client().await, crowd: Arc::clone(&self.0) })
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The wrapper holds the only other handle, so the store below sees the end of its client.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        self.0.harness.crowd(name, round).await;
    }

    fn clock(&self) -> Clock {
        self.0.harness.clock()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        self.0.harness.server_clock()
    }

    fn prefix(&self) -> String {
        self.0.harness.prefix()
    }

    fn set_up(&self, builder: KeeperBuilder) -> KeeperBuilder {
        self.0.harness.set_up(builder)
    }

    fn short(&self) -> Ttls {
        self.0.harness.short()
    }

    fn fault_profile(&self) -> Faults {
        self.0.harness.fault_profile()
    }
}

/// A client of the store whose claims bring foreign data.
struct Beside<H> {
    store: Arc<dyn Store>,
    crowd: Arc<Crowd<H>>,
}

impl<H> fmt::Debug for Beside<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.store, f)
    }
}

impl<H> fmt::Display for Beside<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.store, f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Store for Beside<H> {
    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.crowd.before(claim).await;
        let verdict = self.store.claim(claim).await?;
        self.crowd.after(claim, &verdict).await;
        Ok(verdict)
    }

    forward_store! { self => self.store;
        capabilities admin open renew close amend withdraw wait line id fence_key on_loss
    }
}
