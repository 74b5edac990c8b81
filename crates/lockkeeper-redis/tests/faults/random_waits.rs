//! Random claims that several clients send and wait for at once, on one server, and in a Cluster
//! whose slot moves and whose connections end. Each client learns of each grant soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::RedisStore;
use lockkeeper::store::{Interest, Live, LiveState, Store as _, Verdict, Wake};
use lockkeeper_live::{Cluster, Redis};
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::Seed;
use tokio::task::JoinHandle;

use crate::support::{Claimant, LONG, TIME_LIMIT, within};

const ROUNDS: u64 = 12;
const NAME: &str = "a-lock";
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(20);

async fn connect(url: &str) -> RedisStore {
    RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

/// Claims and waits until the claim is granted. Returns when, and how often it was sent.
async fn pursue(claim: Claimant) -> (Instant, u32) {
    let mut sent = 0;
    loop {
        sent += 1;
        match claim.resend().await {
            Ok(Verdict::Granted { .. }) => return (Instant::now(), sent),
            Ok(Verdict::Queued { seen, look_again, .. }) => {
                let interest = Interest::Claim(&claim.claim.key);
                match claim.store.wait(interest, seen, look_again).await {
                    Ok(Wake::Granted { .. }) => return (Instant::now(), sent),
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn sent(claim: &Claimant) {
    while claim.send().await.is_err() {}
}

async fn withdrawn(claim: &Claimant) {
    while claim.withdraw(None).await.is_err() {}
}

/// Some clients that pursue one claim.
struct Pursuit {
    claim: Claimant,
    clients: Vec<JoinHandle<(Instant, u32)>>,
}

struct World {
    stores: [RedisStore; 3],
    /// Renews all waiting claims, and waits for none.
    renewer: RedisStore,
    seed: Seeded,
    holder: Claimant,
    /// A grant is known within this time after the release before it.
    most: Duration,
}

impl World {
    async fn new(url: &str, most: Duration) -> Self {
        let stores =
            [connect(url).await, connect(&format!("{url}?resp=2")).await, connect(url).await];
        let holder = Claimant::new(&stores[0], NAME, LONG).await;
        sent(&holder).await;
        let seed = Seed::several(1).next().unwrap();
        Self { stores, renewer: connect(url).await, seed: Seeded::new(seed.number()), holder, most }
    }

    fn pick(&mut self, count: u64) -> usize {
        usize::try_from(self.seed.below(count)).unwrap()
    }

    async fn pursuit(&mut self) -> Pursuit {
        let by = self.pick(3);
        let claim = Claimant::new(&self.stores[by], NAME, LONG).await;
        sent(&claim).await;
        let mut clients = Vec::new();
        for other in 0..3 {
            if other == by || self.pick(2) == 0 {
                let copy = claim.through(&self.stores[other]);
                let delay = Duration::from_millis(self.seed.below(30));
                clients.push(tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    pursue(copy).await
                }));
            }
        }
        Pursuit { claim, clients }
    }

    /// Renews these claims until the task is aborted.
    fn renewals(&self, pursuits: &[Pursuit]) -> JoinHandle<()> {
        let claims: Vec<_> = pursuits.iter().map(|of| of.claim.through(&self.renewer)).collect();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1200)).await;
                for claim in &claims {
                    let live = Live { key: claim.claim.key.clone(), state: LiveState::InFlight };
                    drop(claim.store.renew(&claim.claim.key.session, &[live]).await);
                }
            }
        })
    }

    /// Some claims wait, and then get the lock, one after the other.
    async fn round(&mut self) {
        let mut pursuits = Vec::new();
        for _ in 0..=self.pick(3) {
            pursuits.push(self.pursuit().await);
        }
        let renewals = self.renewals(&pursuits);
        tokio::time::sleep(Duration::from_millis(35 + self.seed.below(400))).await;
        for Pursuit { claim, clients } in pursuits {
            if self.pick(3) == 0 {
                // A late copy by a client that does not wait.
                let by = self.pick(3);
                drop(claim.through(&self.stores[by]).send().await);
            }
            tokio::time::sleep(Duration::from_millis(self.seed.below(20))).await;
            let released = Instant::now();
            let by = self.pick(3);
            withdrawn(&self.holder.through(&self.stores[by])).await;
            for client in clients {
                let (granted, sent) = within(TIME_LIMIT, client).await.unwrap();
                let took = granted.saturating_duration_since(released);
                assert!(took < self.most, "known after {took:?} and {sent} claims");
            }
            self.holder = claim;
        }
        renewals.abort();
    }

    async fn run(mut self) {
        for _ in 0..ROUNDS {
            self.round().await;
        }
        withdrawn(&self.holder).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_that_waits_for_a_claim_learns_of_its_grant() {
    let server = Redis::start().unwrap();
    World::new(&server.url(), Duration::from_millis(1500)).await.run().await;
}

/// Moves the slot of the lock from node to node, and ends the connections now and then.
fn disturb(cluster: &Cluster, stop: &AtomicBool) {
    let slot = cluster.slot_of(NAME).unwrap();
    let mut from = cluster.owner(slot).unwrap();
    for turn in 1_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(Duration::from_millis(200 + turn * 37 % 300));
        if turn.is_multiple_of(3) {
            for node in cluster.nodes() {
                drop(node.query::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]));
                drop(node.query::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]));
            }
        } else {
            let to = (from + 1) % 3;
            cluster.begin_move(slot, from, to).unwrap();
            std::thread::sleep(Duration::from_millis(turn * 13 % 120));
            cluster.move_keys(slot, from, to).unwrap();
            std::thread::sleep(Duration::from_millis(turn * 7 % 60));
            cluster.end_move(slot, from, to).unwrap();
            from = to;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_learns_of_its_grant_while_the_slot_moves() {
    let cluster = Arc::new(Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap());
    let world = World::new(&cluster.url(), Duration::from_millis(3000)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let disturbance = std::thread::spawn({
        let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
        move || disturb(&cluster, &stop)
    });
    world.run().await;
    stop.store(true, Ordering::SeqCst);
    disturbance.join().unwrap();
}
