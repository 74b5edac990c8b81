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
