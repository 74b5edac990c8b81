//! Clients and claims of the tests.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Interest, Live, LiveState, Renewal, Revision, SessionId, SessionSpec,
    Store, Verdict, Wake,
};
use lockkeeper::{EtcdStore, Keeper, Result};
use lockkeeper_live::Etcd;
use lockkeeper_live::locks::patiently_connected;

pub(crate) use lockkeeper_live::locks::{
    LONG, TIME_LIMIT, UNRENEWED, is_free, name, patiently, until_waiting, waiter, within,
};

/// A client of all members.
pub(crate) async fn store(url: &str) -> EtcdStore {
    let builder = EtcdStore::from_url(&url.parse().unwrap()).unwrap();
    patiently_connected(|| builder.clone().connect()).await
}

pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    patiently(async || Keeper::builder(store(url).await).ttl(ttl).connect().await).await
}

/// Polls a claim by hand until a change has happened in etcd, and no further.
pub(crate) async fn drive<T: Debug>(
    claiming: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>,
    mut happened: impl FnMut() -> bool,
) {
    let mut cx = Context::from_waker(Waker::noop());
    let driving = async {
        while !happened() {
            let polled = claiming.as_mut().poll(&mut cx);
            assert!(polled.is_pending(), "it has ended: {polled:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(TIME_LIMIT, driving).await;
}

/// Polls a request once, which sends it, and waits for its effect in etcd: the client has not read
/// the answer.
pub(crate) async fn send<T: Debug>(
    asking: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>,
    happened: impl Fn() -> bool,
) {
    let first = asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "it has ended: {first:?}");
    let waiting = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(TIME_LIMIT, waiting).await;
}

/// The keys of a line, in the order in which they were made.
pub(crate) fn line(etcd: &Etcd, name: &str) -> Vec<lockkeeper_live::Entry> {
    let name: lockkeeper::LockName = name.parse().unwrap();
    let keys = || etcd.control().keys(format!("/lockkeeper/.lock/{}/", name.encoded()));
    // Without a leader, no answer comes.
    let mut line = (0..10).find_map(|_| keys().ok()).expect("the keys of a line");
    line.sort_by_key(|entry| entry.create_revision);
    line
}

/// A claim on a store, without a keeper.
pub(crate) struct Bare {
    pub(crate) store: EtcdStore,
    pub(crate) claim: Claim,
}

/// The first lease of a session of a store without a path in its URL.
pub(crate) fn lease_of(session: &SessionId) -> i64 {
    use sha2::{Digest, Sha256};

    let hash =
        Sha256::digest(format!("lockkeeper session\0native\0/lockkeeper\0{}", session.as_str()));
    i64::from_be_bytes(hash[..8].try_into().unwrap()) & i64::MAX
}

impl Bare {
    pub(crate) async fn new(url: &str, name: &str, ttl: Duration) -> Self {
        let store = store(url).await;
        let mut spec = SessionSpec::new(ttl, Duration::ZERO);
        // The claims of waiters are not renewed either.
        spec.wait_ttl = ttl / 2;
        let session = SessionId::random();
        patiently(async || store.open(&session, &spec).await).await;
        let key = ClaimKey { name: name.parse().unwrap(), session, id: ClaimId::random() };
        let claim = Claim::exclusive(key, &spec);
        Self { store, claim }
    }

    /// Another claim of the same session.
    pub(crate) fn another(&self) -> Self {
        let mut claim = self.claim.clone();
        claim.key.id = ClaimId::random();
        Self { store: self.store.clone(), claim }
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
        within(
            TIME_LIMIT,
            self.store.wait(Interest::Claim(&self.claim.key), Revision::default(), LONG),
        )
        .await
        .unwrap()
    }
}
