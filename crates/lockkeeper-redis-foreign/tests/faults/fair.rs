//! `RFairLock`: one queue for the clients of both, beside the scripts of Redisson.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{
    Admin as _, Evict, Evicted, LiveState, Renewal, Store as _, TOMBSTONE_MIN, Target, Verdict,
    Withdrawal,
};
use lockkeeper::{Effect, ErrorKind, LockName};
use lockkeeper_live::{Redis, redis};

use crate::support::{
    Claimant, LONG, TIME_LIMIT, first_message, keeper, name, store, until_listening, within,
};

/// `fairLockWaitTimeout` of Redisson, as it is by default.
const WAIT: &str = "300000";
/// Clients of Redisson.
const JAVA: [&str; 3] = [
    "8743c9c0-0795-4907-87fd-6c719a6b4586:1",
    "8743c9c0-0795-4907-87fd-6c719a6b4586:42",
    "0f1e2d3c-0795-4907-87fd-6c719a6b4586:7",
];

/// A fair lock of Redisson, by its own scripts.
struct Theirs {
    server: &'static Redis,
    name: String,
}

impl Theirs {
    fn new() -> Self {
        Self { server: redis().unwrap(), name: name() }
    }

    fn queue(&self) -> String {
        format!("redisson_lock_queue:{{{}}}", self.name)
    }

    fn times(&self) -> String {
        format!("redisson_lock_timeout:{{{}}}", self.name)
    }

    fn channel(&self) -> String {
        format!("redisson_lock__channel:{{{}}}", self.name)
    }

    fn latch(&self) -> String {
        format!("redisson_unlock_latch:{{{}}}:{}", self.name, name())
    }

    /// Takes the lock, or waits in the queue and answers for how long to wait, in ms.
    fn lock(&self, owner: &str) -> Option<i64> {
        let (now, script) = (now(), include_str!("fair/lock.lua"));
        let keys = [&*self.name, &self.queue(), &self.times()];
        let [lock, queue, times] = keys;
        let call = ["EVAL", script, "3", lock, queue, times, "30000", owner, WAIT, &now];
        self.server.query(&call).unwrap()
    }

    /// Releases the lock. Answers nothing if this client does not hold it.
    fn unlock(&self, owner: &str) -> Option<i64> {
        let (now, script) = (now(), include_str!("fair/unlock.lua"));
        let [queue, times, channel, latch] =
            [self.queue(), self.times(), self.channel(), self.latch()];
        let keys = [&*self.name, &*queue, &*times, &*channel, &*latch];
        let args = ["0", "30000", owner, &now, "publish", "16000"];
        let call = [&["EVAL", script, "5"], &keys[..], &args[..]].concat();
        self.server.query(&call).unwrap()
    }

    fn gives_up(&self, owner: &str) {
        let script = include_str!("fair/give_up.lua");
        let call = ["EVAL", script, "2", &self.queue(), &self.times(), owner, WAIT];
        self.server.query::<Option<String>>(&call).unwrap();
    }

    /// The owners in the queue.
    fn waiting(&self) -> Vec<String> {
        self.server.query(&["LRANGE", &self.queue(), "0", "-1"]).unwrap()
    }

    /// The next message to this waiter of Redisson, which sleeps until it comes.
    async fn message_to(&self, owner: &str) -> tokio::task::JoinHandle<String> {
        let channel = format!("{}:{owner}", self.channel());
        let (listening, connection) = (channel.clone(), self.server.connect().unwrap());
        let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
        until_listening(self.server, &channel).await;
        message
    }

    /// Waits until so many holders and waiters live.
    async fn until_live(&self, client: &Claimant, count: usize) {
        let of: LockName = self.name.parse().unwrap();
        let dead = async { while client.store.line(&of).await.unwrap().entries.len() > count {} };
        within(TIME_LIMIT, dead).await;
    }

    async fn claimant(&self, ttl: Duration) -> Claimant {
        let mut claimant =
            Claimant::new(&store(self.server, Layout::RedissonFair).await, &self.name, ttl).await;
        claimant.claim.queue = true;
        claimant
    }
}

/// As `System.currentTimeMillis` of a client.
fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string()
}

/// The owner of a claim, as the keys have it.
fn owner(claimant: &Claimant) -> String {
    let hex: String =
        claimant.claim.key.id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{}:1", parts.join("-"))
}

async fn queued(claimant: &Claimant) -> u32 {
    match claimant.send().await {
        Ok(Verdict::Queued { ahead, .. }) => ahead,
        other => panic!("expected a place in the queue, not {other:?}"),
    }
}

#[tokio::test]
async fn a_queue_of_both_keeps_its_order_and_each_release_wakes_the_next() {
    let theirs = Theirs::new();
    let [first, second] = [theirs.claimant(LONG).await, theirs.claimant(LONG).await];
    first.granted().await;
    assert!(theirs.lock(JAVA[0]).is_some_and(|left| left > 0), "it waits");
    assert_eq!(queued(&second).await, 2);
    assert!(theirs.lock(JAVA[1]).is_some());
    assert_eq!(theirs.waiting(), [JAVA[0], &owner(&second), JAVA[1]]);
    // The waiter of Redisson sleeps until the message `0` on its own channel.
    let message = theirs.message_to(JAVA[0]).await;
    first.release().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
    assert_eq!(theirs.lock(JAVA[1]), Some(0), "it is not the first");
    assert_eq!(queued(&second).await, 1, "nobody holds the lock, and one is ahead");
    assert_eq!(theirs.lock(JAVA[0]), None, "it holds the lock");
    let (store, key) = (second.store.clone(), second.claim.key.clone());
    let waiting = tokio::spawn(async move {
        let interest = lockkeeper::store::Interest::Claim(&key);
        store.wait(interest, Default::default(), TIME_LIMIT).await
    });
    until_listening(theirs.server, &format!("{}:{}", theirs.channel(), owner(&second))).await;
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
    assert_eq!(theirs.unlock(JAVA[0]), Some(1), "no holder is no error there, and changes nothing");
    within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    second.granted().await;
    assert_eq!(theirs.unlock(JAVA[0]), None, "it is not theirs");
    assert_eq!(theirs.waiting(), [JAVA[1]]);
    second.release().await;
    assert_eq!(theirs.lock(JAVA[1]), None);
    assert_eq!(theirs.unlock(JAVA[1]), Some(1));
    for key in [theirs.queue(), theirs.times(), theirs.name.clone()] {
        assert!(!theirs.server.query::<bool>(&["EXISTS", &key]).unwrap(), "{key} is left");
    }
}

/// Each grant of Redisson takes 5 minutes from the times of all waiters, and each of its releases
/// removes those at the head whose time is over.
#[tokio::test]
async fn grants_of_redisson_remove_no_waiter_of_lockkeeper() {
    let theirs = Theirs::new();
    let (holder, waiter) = (theirs.claimant(LONG).await, theirs.claimant(LONG).await);
    holder.granted().await;
    for owner in JAVA {
        assert!(theirs.lock(owner).is_some());
    }
    assert_eq!(queued(&waiter).await, 4);
    holder.release().await;
    for (at, java) in JAVA.iter().enumerate() {
        assert_eq!(theirs.lock(java), None, "{java} holds the lock");
        assert_eq!(theirs.unlock(java), Some(1));
        assert_eq!(theirs.waiting().len(), 3 - at);
    }
    assert_eq!(theirs.waiting(), [owner(&waiter)]);
    waiter.granted().await;
}

/// The time of a waiter of Redisson behind is as long as behind a waiter of Redisson.
#[tokio::test]
async fn a_waiter_of_redisson_waits_as_long_behind_lockkeeper_as_elsewhere() {
    let theirs = Theirs::new();
    let all = [LONG; 3].map(|ttl| theirs.claimant(ttl));
    let [holder, a, b] = futures(all).await;
    holder.granted().await;
    queued(&a).await;
    queued(&b).await;
    assert!(theirs.lock(JAVA[0]).is_some());
    for next in [&holder, &a] {
        next.release().await;
    }
    b.granted().await;
    let time: f64 = theirs.server.query(&["ZSCORE", &theirs.times(), JAVA[0]]).unwrap();
    let left = time - now().parse::<f64>().unwrap();
    assert!((280_000.0..320_000.0).contains(&left), "{left}");
}

async fn futures<F: Future>(all: [F; 3]) -> [F::Output; 3] {
    let [a, b, c] = all;
    [a.await, b.await, c.await]
}

#[tokio::test]
async fn a_waiter_that_redisson_has_removed_comes_back_to_the_head() {
    let theirs = Theirs::new();
    let [holder, first, second] = futures([LONG; 3].map(|ttl| theirs.claimant(ttl))).await;
    holder.granted().await;
    queued(&first).await;
    queued(&second).await;
    for waiter in [&first, &second] {
        theirs.server.run(&["ZADD", &theirs.times(), "1", &owner(waiter)]).unwrap();
    }
    assert!(theirs.lock(JAVA[0]).is_some());
    assert_eq!(theirs.waiting(), [JAVA[0]], "the script of Redisson has removed the others");
    assert_eq!(second.renewed_as(LiveState::Queued).await, Renewal::Queued);
    assert_eq!(queued(&first).await, 1);
    assert_eq!(theirs.waiting(), [&owner(&first), &owner(&second), JAVA[0]]);
}

/// The release gives the lock to the first of them. Nobody is left who would wake the waiter of
/// Redisson, which sleeps for the rest of the lease that it has seen last.
#[tokio::test]
async fn dead_waiters_of_lockkeeper_hide_no_waiter_of_redisson() {
    let theirs = Theirs::new();
    let [holder, mut one, mut two] = futures([LONG; 3].map(|ttl| theirs.claimant(ttl))).await;
    holder.granted().await;
    for dies in [&mut one, &mut two] {
        dies.claim.wait_ttl = LONG;
        queued(dies).await;
    }
    assert!(theirs.lock(JAVA[0]).is_some());
    let message = theirs.message_to(JAVA[0]).await;
    holder.release().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
}

/// The release of Redisson has woken the dead waiter only.
#[tokio::test]
async fn a_dead_waiter_that_is_withdrawn_gives_its_turn_to_redisson() {
    let theirs = Theirs::new();
    assert_eq!(theirs.lock(JAVA[0]), None);
    let mut dies = theirs.claimant(LONG).await;
    dies.claim.wait_ttl = Duration::from_millis(300);
    queued(&dies).await;
    assert!(theirs.lock(JAVA[1]).is_some());
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
    theirs.until_live(&dies, 1).await;
    let message = theirs.message_to(JAVA[1]).await;
    let withdrawn = dies.store.withdraw(&dies.claim.key, None).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Absent);
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
}

/// Redisson has removed it at a release, and has woken nobody.
#[tokio::test]
async fn a_waiter_that_comes_back_to_the_head_of_a_free_lock_is_granted() {
    let theirs = Theirs::new();
    assert_eq!(theirs.lock(JAVA[0]), None);
    let waiter = theirs.claimant(LONG).await;
    queued(&waiter).await;
    theirs.server.run(&["ZADD", &theirs.times(), "1", &owner(&waiter)]).unwrap();
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
    assert!(theirs.waiting().is_empty());
    assert_eq!(waiter.renewed_as(LiveState::Queued).await, Renewal::Queued);
    let line = waiter.store.line(&theirs.name.parse().unwrap()).await.unwrap();
    assert!(line.entries[0].granted, "{line:?}");
}

/// Its time is that of a waiter of lockkeeper, and not the 5 minutes of Redisson.
#[tokio::test]
async fn a_dead_waiter_of_lockkeeper_holds_up_redisson_for_its_wait_ttl() {
    let theirs = Theirs::new();
    let (holder, mut dies) = (theirs.claimant(LONG).await, theirs.claimant(LONG).await);
    dies.claim.wait_ttl = Duration::from_millis(1500);
    holder.granted().await;
    queued(&dies).await;
    assert!(theirs.lock(JAVA[0]).is_some());
    let message = theirs.message_to(JAVA[0]).await;
    holder.release().await;
    // The release has given the lock to the dead waiter, for the rest of its wait. The next waiter
    // learns how long that is.
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
    let start = Instant::now();
    let taken = async {
        while let Some(left) = theirs.lock(JAVA[0]) {
            assert!(left <= 1500, "{left}");
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, taken).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
}

/// Else a waiter of Redisson that comes later would count as dead at once.
#[tokio::test]
async fn a_dead_waiter_in_the_middle_gives_its_time_to_no_waiter_of_redisson() {
    let theirs = Theirs::new();
    let [holder, first, mut dies] = futures([LONG; 3].map(|ttl| theirs.claimant(ttl))).await;
    dies.claim.wait_ttl = Duration::from_millis(1);
    holder.granted().await;
    queued(&first).await;
    queued(&dies).await;
    // As if it had died long ago.
    theirs.server.run(&["ZADD", &theirs.times(), "1", &owner(&dies)]).unwrap();
    theirs.until_live(&dies, 2).await;
    assert_eq!(first.renewed_as(LiveState::Queued).await, Renewal::Queued);
    assert_eq!(theirs.waiting(), [owner(&first)]);
    assert!(theirs.lock(JAVA[0]).is_some_and(|left| left > 0), "it has a time of its own");
}

/// The same at the head of a lock that only clients of Redisson release.
#[tokio::test]
async fn a_dead_waiter_of_lockkeeper_behind_redisson_is_removed_by_its_scripts() {
    let theirs = Theirs::new();
    assert_eq!(theirs.lock(JAVA[0]), None);
    assert!(theirs.lock(JAVA[1]).is_some());
    let mut dies = theirs.claimant(LONG).await;
    dies.claim.wait_ttl = Duration::from_millis(500);
    queued(&dies).await;
    assert!(theirs.lock(JAVA[2]).is_some());
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
    assert_eq!(theirs.lock(JAVA[1]), None);
    assert_eq!(theirs.unlock(JAVA[1]), Some(1));
    let start = Instant::now();
    let taken = async {
        while theirs.lock(JAVA[2]).is_some() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, taken).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let live = theirs.server.query::<Vec<String>>(&["ZRANGE", &theirs.times(), "0", "-1"]);
    assert!(live.unwrap().is_empty() && theirs.waiting().is_empty());
}

/// So a waiter of Redisson that gives up takes its time from those behind it.
#[tokio::test]
async fn a_waiter_of_redisson_that_gives_up_removes_no_waiter_of_lockkeeper() {
    let theirs = Theirs::new();
    let (holder, waiter) = (theirs.claimant(LONG).await, theirs.claimant(LONG).await);
    holder.granted().await;
    assert!(theirs.lock(JAVA[0]).is_some());
    queued(&waiter).await;
    theirs.gives_up(JAVA[0]);
    assert!(theirs.lock(JAVA[1]).is_some());
    assert_eq!(theirs.waiting(), [&owner(&waiter), JAVA[1]]);
    holder.release().await;
    waiter.granted().await;
}

/// Redisson lets a waiter without a time stand for ever, and so does lockkeeper.
#[tokio::test]
async fn a_waiter_without_an_end_stands_until_it_is_broken() {
    for time in [None, Some("9e15"), Some("+inf")] {
        let theirs = Theirs::new();
        theirs.server.run(&["RPUSH", &theirs.queue(), JAVA[0]]).unwrap();
        if let Some(time) = time {
            theirs.server.run(&["ZADD", &theirs.times(), time, JAVA[0]]).unwrap();
        }
        let claim = theirs.claimant(LONG).await;
        assert_eq!(queued(&claim).await, 1, "{time:?}: nobody holds the lock");
        assert_eq!(theirs.lock(JAVA[1]).map(|left| left > 0), Some(true), "{time:?}");
        let of: LockName = theirs.name.parse().unwrap();
        let line = claim.store.line(&of).await.unwrap();
        assert_eq!(&*line.entries[0].meta.owner, JAVA[0], "{time:?}");
        let target = Target::Id(line.entries[0].id);
        let broken = claim.store.evict(&of, &target, Evict::Now, "ops", "stuck").await.unwrap();
        assert_eq!(broken, Evicted::Done, "{time:?}");
        assert_eq!(theirs.waiting(), [JAVA[1]], "{time:?}: the lock went to the next");
        claim.granted().await;
    }
}

/// A waiter of Redisson whose time is over is dead at the head, for all.
#[tokio::test]
async fn a_dead_waiter_of_redisson_is_removed_when_its_time_is_over() {
    let theirs = Theirs::new();
    let (holder, waiter) = (theirs.claimant(LONG).await, theirs.claimant(LONG).await);
    holder.granted().await;
    assert!(theirs.lock(JAVA[0]).is_some());
    queued(&waiter).await;
    theirs.server.run(&["ZADD", &theirs.times(), &now(), JAVA[0]]).unwrap();
    holder.release().await;
    waiter.granted().await;
    assert!(theirs.waiting().is_empty());
}

#[tokio::test]
async fn a_value_of_another_type_in_the_queue_is_named_and_stays() {
    for at in 0..2 {
        let theirs = Theirs::new();
        let key = [theirs.queue(), theirs.times()][at].clone();
        theirs.server.run(&["SET", &key, "x"]).unwrap();
        let claim = theirs.claimant(LONG).await;
        let error = claim.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let says = format!("the key {key} holds a value of the type string");
        assert!(error.message().contains(&says), "{error}");
        assert_eq!(theirs.server.query::<String>(&["GET", &key]).unwrap(), "x");
        assert!(!theirs.server.query::<bool>(&["EXISTS", &theirs.name]).unwrap());
    }
}

#[tokio::test]
async fn a_waiter_whose_answer_was_lost_leaves_the_queue_and_does_not_come_back() {
    let theirs = Theirs::new();
    let (holder, waiter) = (theirs.claimant(LONG).await, theirs.claimant(LONG).await);
    holder.granted().await;
    queued(&waiter).await;
    let withdraw = || waiter.store.withdraw(&waiter.claim.key, Some(TOMBSTONE_MIN));
    assert_eq!(withdraw().await.unwrap(), Withdrawal::Removed);
    assert!(theirs.waiting().is_empty());
    assert!(matches!(waiter.send().await, Ok(Verdict::Gone)), "a late copy of the claim");
    assert!(theirs.waiting().is_empty());
    assert_eq!(withdraw().await.unwrap(), Withdrawal::Absent);
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_the_queue() {
    let theirs = Theirs::new();
    let keeper = keeper(theirs.server, Layout::RedissonFair).await;
    assert_eq!(theirs.lock(JAVA[0]), None);
    let mutex = keeper.mutex(&*theirs.name).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let until = async |count: usize| {
        while theirs.waiting().len() != count {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, until(1)).await;
    waiting.abort();
    within(TIME_LIMIT, until(0)).await;
    assert!(!theirs.server.query::<bool>(&["EXISTS", &theirs.times()]).unwrap());
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
}

/// The first waiter makes the key that only lockkeeper writes.
#[tokio::test]
async fn nothing_is_left_for_ever_of_a_waiter_that_dies_behind_redisson() {
    let theirs = Theirs::new();
    let waiter = theirs.claimant(LONG).await;
    assert_eq!(theirs.lock(JAVA[0]), None);
    assert_eq!(queued(&waiter).await, 1);
    let side = format!("lkf:{{{}}}", theirs.name);
    let left: i64 = theirs.server.query(&["PTTL", &side]).unwrap();
    assert!(left > 0, "{left}");
}

/// No claim of the waiter is answered with the grant, so no claim reports it.
#[tokio::test]
async fn a_grant_from_the_queue_is_reported_to_those_who_watch_a_free_lock() {
    let theirs = Theirs::new();
    let (side, server) = (format!("lkf:{{{}}}", theirs.name), theirs.server);
    let (grants, connection) = (format!("{side}:grants"), server.connect().unwrap());
    let channel = grants.clone();
    let message = tokio::task::spawn_blocking(move || first_message(connection, &channel));
    until_listening(server, &grants).await;
    let keeper = keeper(server, Layout::RedissonFair).await;
    let mut watch = keeper.watch(&*theirs.name).unwrap();
    assert!(!watch.changed().await.unwrap().is_held());
    let watching = tokio::spawn(async move { watch.changed().await.map(drop) });
    let asks = async {
        while !server.query::<bool>(&["HEXISTS", &side, "f"]).unwrap() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, asks).await;
    let waiter = theirs.claimant(LONG).await;
    assert_eq!(theirs.lock(JAVA[0]), None);
    assert_eq!(queued(&waiter).await, 1);
    assert_eq!(theirs.unlock(JAVA[0]), Some(1));
    waiter.granted().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "1");
    within(TIME_LIMIT, watching).await.unwrap().unwrap();
}

/// A script that has changed something cannot say that it has changed nothing.
#[tokio::test]
async fn a_release_beside_the_values_of_others_changes_nothing() {
    let theirs = Theirs::new();
    let holder = theirs.claimant(LONG).await;
    holder.granted().await;
    for key in [theirs.queue(), theirs.times()] {
        theirs.server.run(&["SET", &key, "x"]).unwrap();
        let error = holder.store.withdraw(&holder.claim.key, None).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::None));
        assert!(error.message().contains(&key), "{error}");
        assert!(theirs.server.query::<bool>(&["EXISTS", &theirs.name]).unwrap(), "{key}");
        theirs.server.run(&["DEL", &key]).unwrap();
    }
    holder.release().await;
}
