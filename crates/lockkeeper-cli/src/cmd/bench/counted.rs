//! A store that counts the requests to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::store::{
    Amend, Amended, Claim, ClaimKey, Interest, Line, Live, Opened, Renewed, Revision, SessionId,
    SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal, forward_store,
};
use lockkeeper::{LockName, Result};

/// How often a store was asked, by kind of request.
#[derive(Debug, Default)]
pub(super) struct Counts {
    claims: AtomicU64,
    withdrawals: AtomicU64,
    renewals: AtomicU64,
    others: AtomicU64,
    waits: AtomicU64,
}

/// The same at one moment. A wait is no command: most stores listen for many waiters at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) claims: u64,
    pub(super) withdrawals: u64,
    pub(super) renewals: u64,
    pub(super) others: u64,
    pub(super) waits: u64,
}

impl Counts {
    pub(super) fn now(&self) -> Calls {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Calls {
            claims: load(&self.claims),
            withdrawals: load(&self.withdrawals),
            renewals: load(&self.renewals),
            others: load(&self.others),
            waits: load(&self.waits),
        }
    }
}

impl Calls {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            claims: self.claims - before.claims,
            withdrawals: self.withdrawals - before.withdrawals,
            renewals: self.renewals - before.renewals,
            others: self.others - before.others,
            waits: self.waits - before.waits,
        }
    }

    pub(super) fn commands(self) -> u64 {
        self.claims + self.withdrawals + self.renewals + self.others
    }
}

/// The store, counted.
pub(super) struct Counted {
    store: Arc<dyn Store>,
    counts: Arc<Counts>,
}

impl Counted {
    pub(super) fn new(store: Arc<dyn Store>, counts: Arc<Counts>) -> Self {
        Self { store, counts }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counted").field(&self.store).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Counted {
    forward_store! { self => self.store; capabilities admin fence_key on_loss }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        count(&self.counts.others);
        self.store.open(id, spec).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        count(&self.counts.renewals);
        self.store.renew(session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        count(&self.counts.others);
        self.store.close(session, live).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        count(&self.counts.claims);
        self.store.claim(claim).await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        count(&self.counts.others);
        self.store.amend(key, number, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        count(&self.counts.withdrawals);
        self.store.withdraw(key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        count(&self.counts.waits);
        self.store.wait(interest, seen, within).await
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        count(&self.counts.others);
        self.store.line(name).await
    }

    async fn id(&self) -> Result<StoreId> {
        count(&self.counts.others);
        self.store.id().await
    }
}
