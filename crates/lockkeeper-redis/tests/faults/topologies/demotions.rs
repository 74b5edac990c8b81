//! A master becomes a replica, and then the master again. Its process and its connections stay.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::{Live, LiveState, Renewal, Store as _};
use lockkeeper_live::Redis;

use crate::support::{Claimant, LONG, TIME_LIMIT, UNRENEWED, within};

/// Makes `one` a replica of `other`, and waits until it has the data.
pub(crate) async fn follows(one: &Redis, other: &Redis) {
    one.run(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).unwrap();
    within(TIME_LIMIT, async {
        while one.info("master_link_status").unwrap() != "up" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A master, its replica, and a client that counts a lock only when the replica has it.
struct Pair {
    master: Redis,
    replica: Redis,
    careful: RedisStore,
    /// The server has the scripts before a test sends its request.
    warm: Claimant,
}

impl Pair {
    async fn new() -> Self {
        let master = Redis::start().unwrap();
        let replica = Redis::builder().replica_of(&master).start().unwrap();
        follows(&replica, &master).await;
        let url = format!("{}?min-replicas=1&timeout=200s", master.url());
        let careful = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
        let warm = Claimant::new(&careful, "another", LONG).await;
        warm.granted().await;
        assert_eq!(warm.line().await.entries.len(), 1);
        Self { master, replica, careful, warm }
    }

    /// The replica gets none of the later writes.
    fn part(&self) {
        self.replica.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
    }

    /// The master loses what the other server does not have, and is the master again.
    async fn demote_and_promote(&self) {
        follows(&self.master, &self.replica).await;
        self.master.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
        follows(&self.replica, &self.master).await;
    }
}

/// No two clients hold the lock. The master grants a claim that no replica has. Before the client
/// asks the replicas, a demotion removes the grant, and the next client gets the lock.
// One thread: no answer comes while the claim is polled once.
#[tokio::test]
async fn a_grant_that_a_demotion_has_undone_is_confirmed_by_no_replica() {
    let pair = Pair::new().await;
    pair.part();
    let claimant = Claimant::new(&pair.careful, "a-lock", UNRENEWED).await;
    let mut sent = pin!(claimant.send());
    let polled = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    // The same connection brings this answer behind that one.
    pair.warm.release().await;
    pair.demote_and_promote().await;

    let first = within(TIME_LIMIT, sent).await;
    let other = RedisStore::standalone(pair.master.address().to_string()).connect().await.unwrap();
    let second = Claimant::new(&other, "a-lock", LONG).await.send().await;
    assert!(first.is_err(), "two hold it: {first:?}, {second:?}");
    // The client has looked again at the server, so its next claim counts.
    let next = Claimant::new(&pair.careful, "the-next", LONG).await;
    within(TIME_LIMIT, async { while next.resend().await.is_err() {} }).await;
}

/// The same for a renewal: the renewed claim is gone.
#[tokio::test]
async fn a_renewal_that_a_demotion_has_undone_is_confirmed_by_no_replica() {
    let pair = Pair::new().await;
    let claimant = Claimant::new(&pair.careful, "a-lock", LONG).await;
    claimant.granted().await;
    pair.part();
    let live = [Live { key: claimant.claim.key.clone(), state: LiveState::Granted }];
    let mut renewed = pin!(pair.careful.renew(&claimant.claim.key.session, &live));
    let polled = renewed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    pair.warm.release().await;
    pair.demote_and_promote().await;
    let renewed = within(TIME_LIMIT, renewed).await.map(|renewed| renewed.claims);
    let is_held = matches!(renewed.as_deref(), Ok([Renewal::Held { .. }]));
    assert!(!is_held, "{renewed:?}");
}

/// A demotion ends the `WAIT` of a round: the server says `UNBLOCKED`. The claim is of unknown
/// effect, as after a lost connection, and the caller claims again at the new master.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_demotion_during_a_wait_for_replicas_is_an_outage_and_no_bug() {
    let mut pair = Pair::new().await;
    pair.warm.release().await;
    let claimant = Claimant::new(&pair.careful, "a-lock", UNRENEWED).await;
    pair.replica.pause().unwrap();
    let sent = tokio::spawn({
        let claimant = claimant.clone();
        async move { claimant.send().await }
    });
    within(TIME_LIMIT, async {
        while pair.master.info("blocked_clients").unwrap() != "1" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    pair.master.run(&["REPLICAOF", "127.0.0.1", &pair.replica.port().to_string()]).unwrap();
    let error = within(TIME_LIMIT, sent).await.unwrap().expect_err("no replica has it");
    pair.replica.resume().unwrap();
    assert_eq!(error.effect(), lockkeeper::Effect::Unknown, "{error}");
    assert_eq!(error.kind(), lockkeeper::ErrorKind::Unavailable, "{error}");
}

/// The first caller that needs the replicas is in a runtime that nobody drives afterwards, as that
/// of a `block_on` now and then. The callers in the runtime of the store get their locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_runtime_that_stands_still_holds_up_no_grant_of_another_runtime() {
    let master = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    follows(&replica, &master).await;
    let url = format!("{}?min-replicas=1&timeout=2s", master.url());
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    let there = Claimant::new(&store, "a-lock", LONG).await;
    let (ends, parked) = std::sync::mpsc::channel::<()>();
    let (done, claimed) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        done.send(runtime.block_on(there.granted())).unwrap();
        // The runtime is there still.
        let _ = parked.recv();
    });
    within(TIME_LIMIT, claimed).await.unwrap();
    let here = Claimant::new(&store, "another", LONG).await;
    let granted = tokio::time::timeout(TIME_LIMIT, here.send()).await;
    drop(ends);
    thread.join().unwrap();
    granted.expect("the claim hangs").unwrap();
}

/// A claim waits for the replicas, and its caller polls it no more. It delays no renewal.
#[tokio::test]
async fn a_claim_that_is_no_longer_polled_holds_up_no_renewal() {
    let pair = Pair::new().await;
    let claimant = Claimant::new(&pair.careful, "a-lock", LONG).await;
    let mut sent = pin!(claimant.send());
    let mut poll = || sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(poll(), Poll::Pending));
    // The same connection brings this answer behind that one.
    pair.warm.line().await;
    // It asks the replicas.
    assert!(matches!(poll(), Poll::Pending));
    let renewed = tokio::time::timeout(TIME_LIMIT, pair.warm.renew()).await;
    assert!(matches!(renewed, Ok(Ok(Renewal::Held { .. }))), "{renewed:?}");
}

/// The same with a keeper: an attempt that is no longer polled costs no other lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_attempt_that_is_no_longer_polled_costs_no_held_lock() {
    let master = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    follows(&replica, &master).await;
    let ttl = Duration::from_secs(6);
    let keeper = super::keeper(&format!("{}?min-replicas=1", master.url()), ttl).await;
    let guard = within(TIME_LIMIT, keeper.mutex("held").unwrap().lock()).await.unwrap();
    let waits = || master.info("cmdstat_wait").unwrap();
    let before = waits();
    let mut left =
        pin!(std::future::IntoFuture::into_future(keeper.mutex("another").unwrap().lock()));
    while waits() == before {
        let polled = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(ttl * 2).await;
    guard.check().expect("each renewal has its replica");
}
