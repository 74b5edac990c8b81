//! etcd, its leases and its members go wrong, each in one way that has a name.

mod by_hand;
mod compaction;
mod ghosts;
mod leaders;
mod restarts;

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Interest, Live, LiveState, MAX, Meta, Renewal, Revision, SessionSpec, Store, Verdict,
    Wake,
};
use lockkeeper::{EtcdStore, Guard, Keeper, Result};
use lockkeeper_live::Etcd;
use tokio::task::JoinHandle;

pub(crate) use crate::faults::{LONG, PATIENCE, is_free, name, until_waiting, within};

/// A client of all members.
pub(crate) async fn store(url: &str) -> EtcdStore {
    EtcdStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    Keeper::builder(store(url).await).ttl(ttl).connect().await.unwrap()
}

/// One who waits for the lock, and stands in line.
pub(crate) async fn waiter(keeper: &Keeper, name: &str) -> JoinHandle<Result<Guard>> {
    let waiting = tokio::spawn(keeper.mutex(name).unwrap().lock().into_future());
    until_waiting(keeper, name, 1).await;
    waiting
}

/// The keys of a line.
pub(crate) fn line(etcd: &Etcd, name: &str) -> Vec<lockkeeper_live::Entry> {
    let name: lockkeeper::LockName = name.parse().unwrap();
    etcd.control().keys(format!("/lockkeeper/{}/", name.encoded())).unwrap()
}

/// A claim on a store, without a keeper.
pub(crate) struct Bare {
    pub(crate) store: EtcdStore,
    pub(crate) claim: Claim,
}

impl Bare {
    pub(crate) async fn new(url: &str, name: &str, ttl: Duration) -> Self {
        let store = store(url).await;
        let spec = SessionSpec::new(ttl, Duration::ZERO);
        let session = store.open(&spec).await.unwrap().id;
        let key = ClaimKey { name: name.parse().unwrap(), session, id: ClaimId::random() };
        let claim = Claim {
            key,
            ttl,
            wait_ttl: spec.wait_ttl,
            lock_delay: Duration::ZERO,
            weight: MAX,
            capacity: MAX,
            queue: true,
            resend: false,
            replaces: None,
            max_waiters: 1000,
            meta: Meta::default(),
        };
        Self { store, claim }
    }

    pub(crate) async fn renew(&self, state: LiveState) -> Result<Renewal> {
        let live = Live { key: self.claim.key.clone(), state };
        let renewed = self.store.renew(&self.claim.key.session, &[live]).await?;
        Ok(renewed.claims.into_iter().next().unwrap())
    }

    pub(crate) async fn queued(&self) {
        let verdict = self.store.claim(&self.claim).await.unwrap();
        assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
    }

    pub(crate) async fn granted(&self) {
        let verdict = self.store.claim(&self.claim).await.unwrap();
        assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    }

    pub(crate) async fn wait(&self) -> Wake {
        within(PATIENCE, self.store.wait(Interest::Claim(&self.claim.key), Revision::default(), LONG)).await.unwrap()
    }
}
