//! A slot is under way: for less than the ttl of its locks, and for longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::{ErrorKind, FencingToken, Guard, Keeper, LostReason, RedisStore};
use lockkeeper_live::Cluster;
use tokio::time::{Instant, sleep, sleep_until};

use super::{handed_over, keeper, nobody_else_gets_it, pushes_come, waiter};
use crate::support::{Claimant, LONG, TIME_LIMIT, renewed, within};

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

/// The lock can be acquired and released, with a higher token.
async fn works(keeper: &Keeper, name: &str, after: FencingToken) {
    let guard = lock(keeper, name).await;
    assert!(guard.token() > after, "{} after {after}", guard.token());
    within(TIME_LIMIT, guard.release()).await.unwrap();
}

/// Until `stops`, no client gets the lock, and each attempt says why. Returns how many there were.
async fn is_refused(keeper: Keeper, name: &str, stops: Arc<AtomicBool>) -> u32 {
    let mut attempts = 0;
    while !stops.load(Ordering::SeqCst) {
        match within(TIME_LIMIT, keeper.mutex(name).unwrap().try_lock()).await {
            Ok(guard) => panic!("{name} was looked up or given away: {guard:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        attempts += 1;
    }
    attempts
}

/// The keys of one lock stay at the old node, the key of another lock is at the new node, and the
/// keys of a third one are at both. No request about them is served. So each holder knows by its
/// own deadline that its lock is lost, and no client gets a lock before the move ends. Then all
/// locks work again, with higher tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lock_in_a_slot_that_stays_open_for_longer_than_its_ttl_is_lost_and_never_held_twice() {
    let open = Open::start(0);
    let url = format!("{}?timeout=1s", open.cluster.url());
    let (holder, other) = (keeper(&url, TTL).await, keeper(&url, TTL).await);
    let [stays, moves, lined, used, unused, _] = NAMES;
    let guards =
        [lock(&holder, stays).await, lock(&holder, moves).await, lock(&holder, lined).await];
    let waiting = waiter(&other, lined).await;
    let before = guards[0].token();
    works(&holder, used, before).await;

    open.begin();
    for key in [line(moves), line(lined), line(lined) + ":q"] {
        open.carry(&key);
    }
    // No renewal is served from here on.
    let deadline = Instant::now() + TTL;
    let stops = Arc::new(AtomicBool::new(false));
    let attempts = [stays, moves, lined, used, unused]
        .map(|name| tokio::spawn(is_refused(other.clone(), name, Arc::clone(&stops))));
    sleep_until(deadline).await;
    for guard in &guards {
        assert_eq!(
            guard.check().unwrap_err().lost_reason(),
            Some(&LostReason::Expired),
            "{}",
            guard.name()
        );
    }
    sleep(STAY - TTL).await;
    assert!(!waiting.is_finished(), "two have it");
    stops.store(true, Ordering::SeqCst);
    for attempts in attempts {
        let attempts = within(TIME_LIMIT, attempts).await.unwrap();
        assert!(attempts > 1, "{attempts} attempts");
    }

    open.end();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > guards[2].token());
    pushes_come(&holder, next).await;
    for (name, token) in [stays, moves, lined].into_iter().zip(guards.iter().map(Guard::token)) {
        works(&other, name, token).await;
    }
    works(&other, used, before).await;
    works(&holder, unused, before).await;
    for guard in guards {
        assert_eq!(within(TIME_LIMIT, guard.release()).await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// A lock that many tasks take in turn.
#[derive(Default)]
struct Turns {
    is_held: AtomicBool,
    last_token: AtomicU64,
    turns: AtomicU32,
}

impl Turns {
    /// Takes the lock again and again until `stops`. Each attempt succeeds, alone, and with a
    /// higher token.
    async fn take(&self, keeper: Keeper, name: &str, stops: &AtomicBool) {
        while !stops.load(Ordering::SeqCst) {
            let guard = lock(&keeper, name).await;
            assert!(!self.is_held.swap(true, Ordering::SeqCst), "{name} is held twice");
            let token = guard.token().get();
            assert!(
                self.last_token.swap(token, Ordering::SeqCst) < token,
                "{token} is no higher token"
            );
            self.is_held.store(false, Ordering::SeqCst);
            within(TIME_LIMIT, guard.release()).await.unwrap();
            self.turns.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until tasks have taken the lock this often from now on.
    async fn until_taken(&self, times: u32) {
        let target = self.turns.load(Ordering::SeqCst) + times;
        let look = async {
            while self.turns.load(Ordering::SeqCst) < target {
                tokio::task::yield_now().await;
            }
        };
        within(TIME_LIMIT, look).await;
    }
}

/// A slot goes to another node and back, with a pause at each step, while tasks take locks of it in
/// turn. The moves are shorter than the ttl and the timeout. So no holder loses its lock, no waiter
/// its place, and no attempt and no release fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_under_load_within_the_ttl_loses_no_lock_and_no_request() {
    let mut open = Open::start(0);
    let url = open.cluster.url();
    let (holder, other) = (keeper(&url, TTL).await, keeper(&url, TTL).await);
    let [alone, lined, busy, ..] = NAMES;
    let (mut held, mut first) = (lock(&holder, alone).await, lock(&holder, lined).await);
    let (turns, stops) = (Arc::new(Turns::default()), Arc::new(AtomicBool::new(false)));
    let tasks = [&holder, &other, &holder, &other].map(|keeper| {
        let (turns, keeper, stops) = (Arc::clone(&turns), keeper.clone(), Arc::clone(&stops));
        tokio::spawn(async move { turns.take(keeper, busy, &stops).await })
    });
    for _ in 0..2 {
        let (token, waiting) = (held.token(), waiter(&other, lined).await);
        turns.until_taken(10).await;
        open.begin();
        let pause = || sleep(Duration::from_millis(300));
        for key in [line(alone), line(lined), line(lined) + ":w"] {
            open.carry(&key);
            pause().await;
        }
        open.cluster.move_keys(open.slot, open.from, open.to).unwrap();
        pause().await;
        open.end();
        turns.until_taken(10).await;
        renewed(&held).await;
        assert_eq!(held.token(), token);
        nobody_else_gets_it(&other, alone).await;
        assert!(!waiting.is_finished(), "two have it");
        first = handed_over(first, waiting).await;
        (open.from, open.to) = (open.to, open.from);
        held = handed_over(held, waiter(&other, alone).await).await;
    }
    stops.store(true, Ordering::SeqCst);
    for task in tasks {
        within(TIME_LIMIT, task).await.unwrap();
    }
    pushes_come(&holder, first).await;
    within(TIME_LIMIT, held.release()).await.unwrap();
}

/// A line with a holder, a waiter and a tombstone has all of its keys, so each node serves it: the
/// old node sends clients to the new one (`ASK`) for as long as the slot is open. Each renewal
/// counts only when a replica has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_min_replicas_a_lock_with_all_of_its_keys_at_the_new_node_lives_on_while_the_slot_is_open()
 {
    let open = Open::start(1);
    let url = format!("{}?timeout=1s&min-replicas=1", open.cluster.url());
    let (holder, other) = (keeper(&url, TTL).await, keeper(&open.cluster.url(), TTL).await);
    let name = NAMES[0];
    let held = lock(&holder, name).await;
    let waiting = waiter(&other, name).await;
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    let withdrawn = Claimant::new(&store, name, LONG).await;
    withdrawn.queued().await;
    withdrawn.withdraw(Some(3 * TIME_LIMIT)).await.unwrap();
    open.begin();
    open.cluster.move_keys(open.slot, open.from, open.to).unwrap();
    let token = held.token();
    sleep(STAY).await;
    renewed(&held).await;
    assert_eq!(held.token(), token);
    nobody_else_gets_it(&other, name).await;
    assert!(!waiting.is_finished(), "two have it");
    open.end();
    let next = handed_over(held, waiting).await;
    within(TIME_LIMIT, next.release()).await.unwrap();
}

/// The close of a session withdraws all claims at once. While their slot is open, it fails after
/// about the `timeout`, however many claims there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_close_of_many_claims_in_an_open_slot_ends_after_one_timeout() {
    let open = Open::start(0);
    let url = format!("{}?timeout=1s", open.cluster.url());
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    let first = Claimant::new(&store, NAMES[0], TTL).await;
    first.granted().await;
    for name in &NAMES[1..] {
        let mut other = Claimant::new(&store, name, TTL).await;
        other.claim.key.session = first.claim.key.session.clone();
        other.granted().await;
    }
    open.begin();
    let began = Instant::now();
    let error = lockkeeper::store::Store::close(&store, &first.claim.key.session, &[]).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
