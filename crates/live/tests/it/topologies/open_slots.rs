//! A slot is under way, and stays so for longer than any ttl.

use std::time::Duration;

use lockkeeper::{ErrorKind, FencingToken, Guard, Keeper, RedisStore};
use lockkeeper_live::Cluster;

use super::{handed_over, keeper, nobody_else_gets_it, pushes_come, waiter};
use crate::faults::{Claimant, LONG, TIME_LIMIT, renewed, within};

const TTL: Duration = Duration::from_secs(9);
/// The slot stays open for this long.
const STAY: Duration = Duration::from_secs(10);

/// Names of one slot.
const NAMES: [&str; 6] = ["one", "n1435", "n4347", "n18345", "n79798", "n141562"];

struct Open {
    cluster: Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl Open {
    fn start(replicas: usize) -> Self {
        let cluster = Cluster::builder().replicas(replicas).node_timeout(LONG).start().unwrap();
        let slots = NAMES.map(|name| cluster.slot_of(name).unwrap());
        assert_eq!(slots, [slots[0]; NAMES.len()]);
        let from = cluster.owner(slots[0]).unwrap();
        Self { cluster, slot: slots[0], from, to: (from + 1) % 3 }
    }

    fn begin(&self) {
        self.cluster.begin_move(self.slot, self.from, self.to).unwrap();
    }

    /// One key of a line goes to the new node.
    fn carry(&self, key: &str) {
        self.cluster.move_key(key, self.from, self.to).unwrap();
    }

    fn end(&self) {
        self.cluster.move_keys(self.slot, self.from, self.to).unwrap();
        self.cluster.end_move(self.slot, self.from, self.to).unwrap();
    }
}

fn line(name: &str) -> String {
    format!("lk:{{{name}}}")
}

async fn lock(keeper: &Keeper, name: &str) -> Guard {
    within(TIME_LIMIT, keeper.mutex(name).unwrap().lock()).await.unwrap()
}

/// Longer than the ttl, in which other clients try to get the held locks.
async fn stays_held(guards: &[&Guard], other: &Keeper) {
    let tokens: Vec<_> = guards.iter().map(|guard| guard.token()).collect();
    tokio::time::sleep(STAY).await;
    for (guard, token) in guards.iter().zip(tokens) {
        guard.check().unwrap_or_else(|error| panic!("{}: {error}", guard.name()));
        renewed(guard).await;
        assert_eq!(guard.token(), token);
        is_refused(other, guard.name().as_str()).await;
    }
}

/// No client gets the lock; if that cannot be found out, an error says so.
async fn is_refused(other: &Keeper, name: &str) {
    match within(TIME_LIMIT, other.mutex(name).unwrap().try_lock()).await {
        Ok(None) => {}
        Ok(Some(guard)) => panic!("{name} was given away: {guard:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
}

/// The lock can be acquired and released, with a higher token.
async fn works(keeper: &Keeper, name: &str, after: FencingToken) -> FencingToken {
    let guard = lock(keeper, name).await;
    let token = guard.token();
    assert!(token > after, "{token} after {after}");
    within(TIME_LIMIT, guard.release()).await.unwrap();
    token
}

/// All the time, before its keys are moved, between, and after: a holder keeps its lock, with or
/// without a waiter, and no other client gets it; a free lock can be acquired and released; tokens
/// rise; a waiter keeps its place in the line.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_live_on_in_a_slot_that_stays_open_for_longer_than_their_ttl() {
    let open = Open::start(0);
    let url = format!("{}?timeout=1s", open.cluster.url());
    let (holder, other) = (keeper(&url, TTL).await, keeper(&url, TTL).await);
    let [alone, left, lined, used, unused, new] = NAMES;
    let (alone_there, left_there) = (lock(&holder, alone).await, lock(&holder, left).await);
    let lined_there = lock(&holder, lined).await;
    let waiting = waiter(&other, lined).await;
    // The waiter, which is alone in the line now.
    let handed = lock(&holder, new).await;
    let next = waiter(&other, new).await;
    let handed = handed_over(handed, next).await;
    let last = works(&holder, used, alone_there.token()).await;

    open.begin();
    stays_held(&[&alone_there, &left_there, &lined_there, &handed], &holder).await;
    assert!(!waiting.is_finished(), "two have it");
    let last = works(&other, used, last).await;
    let first = works(&other, unused, last).await;

    // An answer that was lost is asked for again.
    let patient = format!("{}?timeout=20s", open.cluster.url());
    let store = RedisStore::from_url(&patient.parse().unwrap()).unwrap().connect().await.unwrap();
    let asks = Claimant::new(&store, unused, LONG).await;
    assert_eq!(asks.granted().await, asks.granted().await);
    asks.release().await;

    open.carry(&line(alone));
    open.carry(&line(used));
    stays_held(&[&alone_there, &left_there, &lined_there, &handed], &holder).await;
    let last = works(&holder, used, last).await;
    works(&holder, unused, first).await;
    let token = alone_there.token();
    within(TIME_LIMIT, alone_there.release()).await.unwrap();
    within(TIME_LIMIT, left_there.release()).await.unwrap();
    within(TIME_LIMIT, handed.release()).await.unwrap();
    let again = lock(&other, alone).await;
    assert!(again.token() > token);

    // A line with keys on both sides allows no operation, and that time is short.
    for part in ["", ":q", ":w"] {
        open.carry(&(line(lined) + part));
    }
    stays_held(&[&again, &lined_there], &holder).await;
    assert!(!waiting.is_finished(), "two have it");

    open.end();
    let next = handed_over(lined_there, waiting).await;
    pushes_come(&holder, next).await;
    nobody_else_gets_it(&holder, alone).await;
    within(TIME_LIMIT, again.release()).await.unwrap();
    works(&holder, used, last).await;
    works(&other, left, token).await;
}

/// Each renewal counts only when a replica has it. That is also true for a lock with keys at the
/// new node, to which the old node sends clients (`ASK`) as long as the slot is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_min_replicas_a_lock_lives_on_at_the_new_node_of_a_slot_that_stays_open() {
    let open = Open::start(1);
    let url = format!("{}?timeout=1s&min-replicas=1", open.cluster.url());
    let (holder, other) = (keeper(&url, TTL).await, keeper(&open.cluster.url(), TTL).await);
    let held = lock(&holder, NAMES[0]).await;
    open.begin();
    open.cluster.move_keys(open.slot, open.from, open.to).unwrap();
    stays_held(&[&held], &other).await;
    within(TIME_LIMIT, held.release()).await.unwrap();
    open.end();
}
