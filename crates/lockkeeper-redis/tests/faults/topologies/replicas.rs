//! A lock counts only when a replica has it, and the replica is gone.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockkeeper::store::{SessionId, SessionSpec, Store};
use lockkeeper::{Effect, ErrorKind, RedisStore};
use lockkeeper_live::{Cluster, Redis, Sentinel};

use super::{handed_over, keeper, waiter};
use crate::support::{Claimant, LONG, TIME_LIMIT, UNRENEWED, is_free, renewed, within};

/// An attempt ends in time, with an error that names the missing replica and a remedy, and leaves
/// nothing behind; held locks are still held. When the replica is back, locks are free as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_its_replica_no_lock_is_handed_out_and_none_is_left() {
    let mut sentinel = Sentinel::builder().down_after(4 * LONG).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=1s", sentinel.url()), LONG).await;
    let other = keeper(&sentinel.url(), LONG).await;
    // The lock is not renewed before the replica is back.
    let patient = keeper(&format!("{}?min-replicas=1&timeout=1s", sentinel.url()), UNRENEWED).await;
    let held = patient.mutex("held").unwrap().lock().await.unwrap();
    sentinel.server(1).pause().unwrap();
    let began = Instant::now();
    let error =
        within(2 * TIME_LIMIT, careful.mutex("a-lock").unwrap().try_lock()).await.unwrap_err();
    eprintln!("after {:?}: {error}", began.elapsed());
    assert!(began.elapsed() < TIME_LIMIT, "{:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("a-lock") && text.contains("0 of 1 replicas"), "{text}");
    assert!(text.contains("Try: a look at the replicas, or a lower min-replicas"), "{text}");
    // A waiter waits for its limit, and no longer.
    let began = Instant::now();
    let waited = careful.mutex("a-lock").unwrap().lock().wait(Duration::from_secs(2));
    within(2 * TIME_LIMIT, waited).await.expect_err("no replica has it");
    assert!(began.elapsed() < TIME_LIMIT, "{:?}", began.elapsed());
    let gone = async { while other.inspect("a-lock").await.unwrap().is_held() {} };
    within(TIME_LIMIT, gone).await;
    is_free(&other, "a-lock").await;
    held.check().unwrap();
    sentinel.server(1).resume().unwrap();
    renewed(&held).await;
    let guard = within(TIME_LIMIT, careful.mutex("a-lock").unwrap().lock()).await.unwrap();
    let waiting = waiter(&careful, "a-lock").await;
    let next = handed_over(guard, waiting).await;
    next.release().await.unwrap();
    held.release().await.unwrap();
}

/// In a Cluster the replica of the slot's own master counts, also when it has become the master and
/// the other server follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_cluster_the_replica_of_the_slots_own_master_is_needed() {
    let mut cluster = Cluster::builder().node_timeout(4 * LONG).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=1s", cluster.url()), LONG).await;
    let other = keeper(&cluster.url(), LONG).await;
    let owner = |cluster: &Cluster, name: &str| {
        cluster.owner(cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()).unwrap()
    };
    let here = "a-lock";
    let master = owner(&cluster, here);
    let there = (0..)
        .map(|number| format!("name-{number}"))
        .find(|name| owner(&cluster, name) != master)
        .unwrap();
    let patient = keeper(&format!("{}?min-replicas=1&timeout=1s", cluster.url()), UNRENEWED).await;
    let held = patient.mutex(here).unwrap().lock().await.unwrap();
    // Each of them has a slot of its own.
    let url = format!("{}?min-replicas=1&timeout=30s", cluster.url());
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    store.id().await.unwrap();
    store.close(&SessionId::random(), &[]).await.unwrap();
    cluster.node(master + 3).pause().unwrap();
    let free = careful.mutex(&*there).unwrap().lock().await.unwrap();
    free.release().await.unwrap();
    held.check().unwrap();
    held.release().await.unwrap();
    let error = within(2 * TIME_LIMIT, careful.mutex(here).unwrap().try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let gone = async { while other.inspect(here).await.unwrap().is_held() {} };
    within(TIME_LIMIT, gone).await;
    cluster.node(master + 3).resume().unwrap();
    let guard = within(TIME_LIMIT, careful.mutex(here).unwrap().lock()).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert_eq!(cluster.fail_over(master).unwrap(), master + 3);
    let guard = within(TIME_LIMIT, careful.mutex(here).unwrap().lock()).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap();
}

/// A master and its replica, and a client that grants only what the replica has.
async fn careful(ttl: Duration) -> (Redis, Redis, lockkeeper::Keeper) {
    let master = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    let keeper = keeper(&format!("{}?min-replicas=1&timeout=1s", master.url()), ttl).await;
    (master, replica, keeper)
}

/// A release grants the lock to the waiter, whose own renewals find that. The waiter gets the lock
/// only when the replica has the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_gets_no_lock_by_its_renewal_that_no_replica_has() {
    let (_master, mut replica, careful) = careful(LONG).await;
    let guard = careful.mutex("a-lock").unwrap().lock().await.unwrap();
    let mut waiting = waiter(&careful, "a-lock").await;
    replica.pause().unwrap();
    guard.release().await.unwrap();
    // Its claim is granted; it is renewed every 1.7 s.
    let held = async { while !careful.inspect("a-lock").await.unwrap().is_held() {} };
    within(TIME_LIMIT, held).await;
    let early = tokio::time::timeout(Duration::from_secs(6), &mut waiting).await;
    assert!(early.is_err(), "{early:?}, and no replica has it");
    replica.resume().unwrap();
    let guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The replica does not follow its master any more, and may have been made a master. A holder's
/// lease at the old master ends within a ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_no_replica_follows_renews_nothing() {
    let ttl = Duration::from_secs(12);
    let (master, mut replica, careful) = careful(ttl).await;
    let guard = careful.mutex("a-lock").unwrap().lock().await.unwrap();
    tokio::time::sleep(ttl + Duration::from_secs(3)).await;
    guard.check().expect("the replica has each renewal");
    replica.pause().unwrap();
    let calls = || master.info("cmdstat_evalsha").unwrap();
    let before = calls();
    within(ttl * 2, guard.lost()).await;
    assert_ne!(calls(), before, "the master was asked meanwhile");
    assert!(guard.check().is_err());
}

/// Without a replica, a minimum hold would end with the master, and the new master would grant the
/// lock again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn min_replicas_a_minimum_hold_counts_only_on_a_replica() {
    let master = Redis::start().unwrap();
    let mut replica = Redis::builder().replica_of(&master).start().unwrap();
    let url = format!("{}?min-replicas=1&timeout=5s", master.url());
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    let claimant = Claimant::new(&store, "a-lock", UNRENEWED).await;
    // A replica has to connect first, and a busy one takes longer than the timeout for that.
    let granted = async { while claimant.send().await.is_err() {} };
    within(TIME_LIMIT, granted).await;
    claimant.granted().await;
    replica.pause().unwrap();
    let error = within(TIME_LIMIT, claimant.keep(LONG)).await.expect_err("no replica has it");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    replica.resume().unwrap();
    let kept = async { while claimant.keep(LONG).await.is_err() {} };
    within(TIME_LIMIT, kept).await;
    claimant.release().await;
    assert!(claimant.line().await.entries[0].kept);
}

/// Without a replica, the new master would open the closed session again, and would have another
/// id.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_end_of_a_session_and_the_id_of_the_store_count_only_on_a_replica() {
    let master = Redis::start().unwrap();
    let mut replica = Redis::builder().replica_of(&master).start().unwrap();
    let url = format!("{}?min-replicas=1&timeout=5s", master.url());
    let store = RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap();
    let (session, spec) = (SessionId::random(), SessionSpec::new(LONG, Duration::ZERO));
    // A replica has to connect first, and a busy one takes longer than the timeout for that.
    let id = async { while store.id().await.is_err() {} };
    within(TIME_LIMIT, id).await;
    replica.pause().unwrap();
    let errors =
        within(TIME_LIMIT, async { tokio::join!(store.close(&session, &[]), store.id()) }).await;
    for error in
        [errors.0.expect_err("no replica has it"), errors.1.expect_err("no replica has it")]
    {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    }
    replica.resume().unwrap();
    let closed = async { while store.close(&session, &[]).await.is_err() {} };
    within(TIME_LIMIT, closed).await;
    let error = store.open(&session, &SessionSpec { detached: true, ..spec }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost);
}

/// The outcome of a granted claim whose answer is read only after `change`: the replicas of the
/// present master have not got the grant from the master that made it.
async fn granted_before(url: &str, change: impl AsyncFnOnce(&RedisStore)) {
    let connect = async |url: &str| {
        RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
    };
    let careful = connect(&format!("{url}?min-replicas=1&timeout=200s")).await;
    // The server has the scripts before the claim is the next thing asked.
    let warm = Claimant::new(&careful, "another", LONG).await;
    warm.granted().await;
    assert_eq!(warm.line().await.entries.len(), 1);
    let claimant = Claimant::new(&careful, "a-lock", UNRENEWED).await;
    let mut sent = pin!(claimant.send());
    assert!(matches!(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    // The same connection brings this answer behind that one.
    warm.release().await;
    change(&careful).await;
    let error = within(TIME_LIMIT, sent).await.expect_err("another server has confirmed it");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    assert!(error.to_string().contains("before replicas had the lock"), "{error}");
}

/// The line of a lock, once it can be read again.
async fn asked(store: &RedisStore) {
    let asked = async { while store.line(&"a-lock".parse().unwrap()).await.is_err() {} };
    within(TIME_LIMIT, asked).await;
}

// One thread: no answer comes while the claim is polled once.
#[tokio::test]
async fn a_grant_of_a_restarted_master_is_never_confirmed() {
    let mut master = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    let url = master.url();
    granted_before(&url, async |careful| {
        master.restart_empty().unwrap();
        let follows = || replica.info("master_link_status").unwrap() == "up";
        within(TIME_LIMIT, async { while !follows() {} }).await;
        asked(careful).await;
    })
    .await;
}

// One thread: no answer comes while the claim is polled once.
#[tokio::test]
async fn a_masters_grant_is_not_confirmed_by_another_masters_replicas() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    granted_before(&sentinel.url(), async |careful| {
        let new = sentinel.fail_over().unwrap();
        sentinel.wait_until_settled().unwrap();
        // The client goes there.
        let goes = async {
            while sentinel.servers()[new].info("cmdstat_evalsha").is_err() {
                asked(careful).await
            }
        };
        within(TIME_LIMIT, goes).await;
        asked(careful).await;
    })
    .await;
}
