//! A client of a Cluster waits for very many names.

use std::time::{Duration, Instant};

use lockkeeper::RedisStore;
use lockkeeper::store::{ClaimId, Interest, Store as _};
use lockkeeper_live::Cluster;

use crate::support::{Claimant, LONG};

/// How many claims are sent at a time.
const TOGETHER: usize = 200;
/// The subscriptions of the largest crowd end and stand again within this time.
const LOOK: Duration = Duration::from_secs(8);

async fn store(url: &str) -> RedisStore {
    RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

/// A client waits for each of these names, behind other holders, until the runtime ends.
async fn crowd(client: &RedisStore, others: &RedisStore, names: usize) {
    let holders = Claimant::new(others, "x", 20 * LONG).await;
    let waiters = Claimant::new(client, "x", LONG).await;
    let mut left: Vec<usize> = (0..names).collect();
    while !left.is_empty() {
        let mut joined = tokio::task::JoinSet::new();
        for number in left.split_off(left.len().saturating_sub(TOGETHER)) {
            let (mut holder, mut waiter) = (holders.clone(), waiters.clone());
            for claimant in [&mut holder, &mut waiter] {
                claimant.claim.key.name = format!("n{names}-{number}").parse().unwrap();
                claimant.claim.key.id = ClaimId::random();
            }
            joined.spawn(async move {
                holder.granted().await;
                (waiter.queued().await, waiter)
            });
        }
        for ((seen, _), waiter) in joined.join_all().await {
            tokio::spawn(async move {
                drop(waiter.store.wait(Interest::Claim(&waiter.claim.key), seen, 20 * LONG).await);
                std::future::pending::<()>().await;
            });
        }
    }
}

/// The longest time without a renewal of a lock, after its client has lost the connections of its
/// messages. The client waits for so many names.
async fn longest_renewal(cluster: &Cluster, names: usize) -> Duration {
    let [client, others] = [store(&cluster.url()).await, store(&cluster.url()).await];
    let held = Claimant::new(&client, &format!("held-{names}"), LONG).await;
    held.granted().await;
    crowd(&client, &others, names).await;
    held.renew().await.unwrap();
    for node in cluster.nodes() {
        node.query::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    }
    let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    while began.elapsed() < LOOK {
        if held.renew().await.is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    longest.max(last.elapsed())
}

/// In a Cluster each name that a client waits for has a channel of its own. When a connection is
/// lost, each channel ends and begins again, in the task that also receives the answers to
/// renewals. The cost of one channel does not grow with the number of channels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiting_names_keep_no_lock_from_its_renewal() {
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let few = longest_renewal(&cluster, 100).await;
    let many = longest_renewal(&cluster, 4000).await;
    eprintln!("{few:?} with 100 names, {many:?} with 4000");
    assert!(many < few + Duration::from_secs(1), "{many:?} with 4000 names, {few:?} with 100");
}
