//! Clients and claims of the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::store::{
    Amend, Amended, Claim, ClaimId, ClaimKey, Interest, Line, Live, LiveState, Renewal, Revision,
    SessionId, SessionSpec, Store, Verdict, Wake, Withdrawal,
};
use lockkeeper::{Keeper, RedisStore, Result};
use lockkeeper_live::locks::patiently_connected;
pub(crate) use lockkeeper_live::locks::{LONG, TIME_LIMIT, UNRENEWED, name, renewed, within};

/// A client of the server at this address.
pub(crate) async fn store(address: SocketAddr) -> RedisStore {
    RedisStore::standalone(address.to_string()).connect().await.unwrap()
}

/// A client that gives a request up this soon. On a busy machine the connection may take several
/// attempts.
pub(crate) async fn hasty_store(address: SocketAddr, timeout: Duration) -> RedisStore {
    let builder = RedisStore::standalone(address.to_string()).timeout(timeout);
    patiently_connected(|| builder.clone().connect()).await
}

pub(crate) async fn keeper(address: SocketAddr, ttl: Duration) -> Keeper {
    Keeper::builder(store(address).await).ttl(ttl).connect().await.unwrap()
}

/// Waits until the line has this many claims.
pub(crate) async fn until_waiting(keeper: &Keeper, name: &str, waiters: usize) {
    let look = async {
        while keeper.inspect(name).await.unwrap().waiters.len() != waiters {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, look).await;
}

/// Asserts that the lock is free, and its line is empty.
pub(crate) async fn is_free(keeper: &Keeper, name: &str) {
    let info = keeper.inspect(name).await.unwrap();
    assert!(info.holders.is_empty() && info.waiters.is_empty(), "{info:?}");
    let guard = keeper.mutex(name).unwrap().try_lock().await.unwrap().expect("it is to be had");
    guard.release().await.unwrap();
}

/// One claim, sent by hand: only the test renews it, tries it again or cleans it up.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub(crate) store: Arc<RedisStore>,
    pub(crate) claim: Claim,
    pub(crate) changes: Arc<AtomicU64>,
}

impl Claimant {
    /// An exclusive claim that waits.
    pub(crate) async fn new(store: &RedisStore, name: &str, ttl: Duration) -> Self {
        let spec = SessionSpec::new(ttl, Duration::ZERO);
        let session = SessionId::random();
        store.open(&session, &spec).await.unwrap();
        let key = ClaimKey { name: name.parse().unwrap(), session, id: ClaimId::random() };
        let claim = Claim::exclusive(key, &spec);
        Self { store: Arc::new(store.clone()), claim, changes: Arc::default() }
    }

    /// The same claim, sent by another client.
    pub(crate) fn through(&self, store: &RedisStore) -> Self {
        Self { store: Arc::new(store.clone()), ..self.clone() }
    }

    pub(crate) async fn send(&self) -> Result<Verdict> {
        self.store.claim(&self.claim).await
    }

    pub(crate) async fn resend(&self) -> Result<Verdict> {
        self.store.claim(&Claim { resend: true, ..self.claim.clone() }).await
    }

    pub(crate) async fn granted(&self) -> u64 {
        token(self.send().await)
    }

    /// Joins the line; returns how that was seen, and when to look again.
    pub(crate) async fn queued(&self) -> (Revision, Duration) {
        match self.send().await {
            Ok(Verdict::Queued { seen, look_again, .. }) => (seen, look_again),
            other => panic!("expected to wait, not {other:?}"),
        }
    }

    pub(crate) async fn wait(&self, seen: Revision, within: Duration) -> Wake {
        self.store.wait(Interest::Claim(&self.claim.key), seen, within).await.unwrap()
    }

    pub(crate) async fn renew(&self) -> Result<Renewal> {
        let live = Live { key: self.claim.key.clone(), state: LiveState::Granted };
        Ok(self.store.renew(&self.claim.key.session, &[live]).await?.claims.remove(0))
    }

    fn next_change(&self) -> u64 {
        self.changes.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) async fn show(&self, value: &str) -> Result<Amended> {
        self.store
            .amend(&self.claim.key, self.next_change(), &Amend::Value(value.as_bytes().into()))
            .await
    }

    /// Makes the store keep the lock for this long.
    pub(crate) async fn keep(&self, min_hold: Duration) -> Result<Amended> {
        self.store.amend(&self.claim.key, self.next_change(), &Amend::MinHold(min_hold)).await
    }

    pub(crate) async fn withdraw(&self, tombstone: Option<Duration>) -> Result<Withdrawal> {
        self.store.withdraw(&self.claim.key, tombstone).await
    }

    pub(crate) async fn release(&self) {
        assert_eq!(self.withdraw(None).await.unwrap(), Withdrawal::Removed);
    }

    pub(crate) async fn line(&self) -> Line {
        self.store.line(&self.claim.key.name).await.unwrap()
    }

    /// Asserts that these claims are in line, and that the first of them holds the lock.
    pub(crate) async fn sees(&self, expected: &[&Self]) {
        let line: Vec<_> =
            self.line().await.entries.iter().map(|entry| (entry.id, entry.granted)).collect();
        let expected: Vec<_> =
            expected.iter().enumerate().map(|(at, of)| (of.claim.key.id.hash(), at == 0)).collect();
        assert_eq!(line, expected);
    }
}

/// The token of a granted claim.
pub(crate) fn token(verdict: Result<Verdict>) -> u64 {
    match verdict {
        Ok(Verdict::Granted { token, .. }) => token,
        other => panic!("expected a grant, not {other:?}"),
    }
}
