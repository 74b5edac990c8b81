//! A minimum hold while clocks go back, waiters come and go, and administrators break the kept
//! lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::{Amended, Evict, Evicted, Renewal, Revision, Store, Target, Wake};
use lockkeeper_live::{Act, Proxy, Redis, redis};

use crate::support::{Claimant, LONG, TIME_LIMIT, name, store, within};

/// Longer than a test takes, and other than every lease.
const HOLD: Duration = Duration::from_secs(60);

async fn claimants<const N: usize>(store: &RedisStore, name: &str) -> [Claimant; N] {
    let mut all = Vec::new();
    for _ in 0..N {
        all.push(Claimant::new(store, name, 4 * LONG).await);
    }
    all.try_into().unwrap()
}

/// Holds the lock with a minimum hold, and releases it, so that the store keeps it.
async fn leaves_a_kept_lock(claimant: &Claimant) {
    assert_eq!(claimant.keep(HOLD).await.unwrap(), Amended::Done);
    claimant.release().await;
}

/// Asserts that a waiter gets a message, and has to look when the hold is over.
async fn is_notified_of_the_end(waiter: &Claimant, seen: Revision) {
    assert_eq!(
        waiter.wait(seen, TIME_LIMIT).await,
        Wake::Changed,
        "nobody tells it that it is the first"
    );
    let (_, look_again) = waiter.queued().await;
    assert!(
        look_again > Duration::from_secs(10) && look_again <= HOLD + Duration::from_millis(1),
        "{look_again:?}"
    );
}

async fn evict(claimant: &Claimant, how: Evict, reason: &str) -> Evicted {
    let (store, key) = (&claimant.store, &claimant.claim.key);
    store
        .admin()
        .unwrap()
        .evict(&key.name, &Target::Id(key.id.hash()), how, "ops", reason)
        .await
        .unwrap()
}

/// The clock goes back by an hour, and the holder is renewed until its minimum hold has passed a
/// second time. Its release frees the lock.
#[tokio::test]
async fn a_clock_that_goes_back_at_most_doubles_a_minimum_hold() {
    const HOUR: i64 = 3600;
    let server = Redis::builder().with_clock().start().unwrap();
    let claimant = Claimant::new(&store(server.address()).await, &name(), LONG).await;
    claimant.granted().await;
    assert_eq!(claimant.keep(HOLD).await.unwrap(), Amended::Done);
    for passed in (0..=70).step_by(10) {
        server.set_clock_offset(passed - HOUR).unwrap();
        assert!(matches!(claimant.renew().await.unwrap(), Renewal::Held { .. }));
    }
    claimant.release().await;
    claimant.sees(&[]).await;
}

/// The holder releases between the look that finds it by its id and the break: the break ends the
/// kept lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_by_id_that_meets_a_release_ends_what_is_kept() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let holder = Claimant::new(&store(server).await, &name, LONG).await;
    let breaker = Claimant {
        store: Arc::new(store(proxy.address()).await),
        claim: holder.claim.clone(),
        changes: Arc::default(),
    };
    for how in [Evict::Mark, Evict::Now] {
        let [held] = claimants(&holder.store, &name).await;
        held.granted().await;
        assert_eq!(held.keep(HOLD).await.unwrap(), Amended::Done);
        let is_here = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_here);
        proxy.on_request(move |request| match request.contains("the words of this break") {
            true => {
                flag.store(true, Ordering::SeqCst);
                Act::Hold
            }
            false => Act::Pass,
        });
        let breaking = tokio::spawn({
            let breaker = Claimant { claim: held.claim.clone(), ..breaker.clone() };
            async move { evict(&breaker, how, "the words of this break").await }
        });
        proxy.until(|_| is_here.load(Ordering::SeqCst)).await.unwrap();
        held.release().await;
        proxy.on_nothing();
        proxy.release();
        assert_eq!(within(TIME_LIMIT, breaking).await.unwrap(), Evicted::Done, "{how:?}");
        held.sees(&[]).await;
    }
}

/// Redis deletes the key of an unused lock within a day or two, however long its hold or its lease
/// was.
#[tokio::test]
async fn the_key_of_a_lock_kept_or_held_for_a_year_expires_in_days() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    for (name, hold, breaks) in
        [("broken", Some(YEAR), true), ("kept", Some(HOLD), false), ("held", None, false)]
    {
        let claimant =
            Claimant::new(&store, name, if hold == Some(YEAR) { LONG } else { YEAR }).await;
        claimant.granted().await;
        if let Some(hold) = hold {
            assert_eq!(claimant.keep(hold).await.unwrap(), Amended::Done);
        }
        if !breaks {
            claimant
                .withdraw(Some(Duration::from_secs(60)).filter(|_| hold.is_none()))
                .await
                .unwrap();
        }
        if hold.is_some() {
            assert_eq!(evict(&claimant, Evict::Now, "a test").await, Evicted::Done);
        }
        let left: u64 = server.query(&["PTTL", &format!("lk:{{{name}}}")]).unwrap();
        assert!(Duration::from_millis(left) <= DAYS, "{name}: {} days", left / 86_400_000);
    }
    let claimant = Claimant::new(&store, "released", YEAR).await;
    claimant.granted().await;
    claimant.release().await;
    let left: u64 = server.query(&["PTTL", "lk:{released}"]).unwrap();
    assert!(Duration::from_millis(left) <= DAYS, "released: {} days", left / 86_400_000);
}

/// The first waiter gives up, or is broken. The next waiter knew only that others are before it.
#[tokio::test]
async fn a_new_first_waiter_behind_a_kept_lock_looks_at_its_end() {
    let store = store(redis().unwrap().address()).await;
    for is_broken in [false, true] {
        let [holder, first, second] = claimants(&store, &name()).await;
        holder.granted().await;
        first.queued().await;
        let (seen, look_again) = second.queued().await;
        assert!(look_again <= Duration::from_secs(10), "it is the second");
        leaves_a_kept_lock(&holder).await;
        if is_broken {
            assert_eq!(evict(&first, Evict::Now, "a test").await, Evicted::Done);
        } else {
            first.release().await;
        }
        is_notified_of_the_end(&second, seen).await;
        second.release().await;
    }
}

/// The first waiter is dead when the holder lets go, or dies later and the next one's renewal finds
/// that.
#[tokio::test]
async fn a_waiter_behind_dead_claims_learns_the_end_of_a_kept_lock() {
    const WAIT: Duration = Duration::from_millis(300);
    let store = store(redis().unwrap().address()).await;
    for dies_later in [false, true] {
        let [holder, mut dead, second] = claimants(&store, &name()).await;
        holder.granted().await;
        dead.claim.wait_ttl = WAIT;
        dead.queued().await;
        let (seen, _) = second.queued().await;
        if dies_later {
            leaves_a_kept_lock(&holder).await;
        }
        tokio::time::sleep(2 * WAIT).await;
        if dies_later {
            assert_eq!(second.renew().await.unwrap(), Renewal::Queued);
        } else {
            leaves_a_kept_lock(&holder).await;
        }
        is_notified_of_the_end(&second, seen).await;
        second.release().await;
    }
}

/// One of two permits is kept, and the other one is handed on to the first waiter.
#[tokio::test]
async fn a_waiter_behind_a_grant_beside_a_kept_permit_learns_its_end() {
    let store = store(redis().unwrap().address()).await;
    let mut all: [Claimant; 4] = claimants(&store, &name()).await;
    for claimant in &mut all {
        (claimant.claim.weight, claimant.claim.capacity) = (1, 2);
    }
    let [kept, held, first, second] = all;
    kept.granted().await;
    held.granted().await;
    first.queued().await;
    let (seen, _) = second.queued().await;
    leaves_a_kept_lock(&kept).await;
    held.release().await;
    // The claim before it has not been renewed yet, and its end is the next one.
    assert_eq!(
        second.wait(seen, TIME_LIMIT).await,
        Wake::Changed,
        "nobody tells it that it is the first"
    );
    for claimant in [first, second] {
        claimant.release().await;
    }
}

/// The connection is gone when the holder releases. With it the message is lost that the lock is
/// kept for a shorter time than the lease that the waiter knows.
#[tokio::test]
async fn a_waiter_with_a_lost_subscription_learns_the_end_of_a_kept_lock() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let holder = Claimant::new(&store(server).await, &name, 4 * LONG).await;
    let waiter = Claimant::new(&store(proxy.address()).await, &name, LONG).await;
    holder.granted().await;
    let (seen, look_again) = waiter.queued().await;
    assert!(look_again > 2 * LONG, "{look_again:?}");
    proxy.refuse();
    proxy.cut();
    proxy.until(|seen| seen.open == 0).await.unwrap();
    leaves_a_kept_lock(&holder).await;
    proxy.accept().unwrap();
    is_notified_of_the_end(&waiter, seen).await;
    waiter.release().await;
}
