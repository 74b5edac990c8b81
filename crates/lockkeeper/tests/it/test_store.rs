//! The store that fails on demand: a test gets the requested failures at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::{Fault, Prefix, Traced};
use lockkeeper::store::Store;
use lockkeeper::testing::{Op, TestStore};
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, Guard, Keeper, KeeperBuilder, LostReason, Result, SessionState};
use lockkeeper_testing::{Crash, Harness, Time, Ttls, unique_prefix};

mod contract {
    use super::AtRest;

    lockkeeper_testing::suite! {
        mod test_store_at_rest;
        harness = AtRest;
        lacks = [SessionExpiry];
        left_out = 12
    }
}

/// A test store without requested failures.
#[derive(Debug)]
struct AtRest(TestStore, Clock);

impl Harness for AtRest {
    const TIME: Time = Time::Virtual;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        let clock = Clock::tokio();
        Self(TestStore::with_clock(clock.clone()), clock)
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        self.1.clone()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn fault_profile(&self) -> lockkeeper::layer::Faults {
        lockkeeper::layer::Faults::none()
    }

    fn short(&self) -> Ttls {
        Ttls::quick()
    }
}

async fn keeper(store: impl Store) -> Keeper {
    Keeper::builder(store).connect().await.unwrap()
}

async fn held(keeper: &Keeper, name: &str) -> Guard {
    keeper.mutex(name).unwrap().lock().await.unwrap()
}

/// A store and a keeper on virtual time.
async fn timed() -> (TestStore, Keeper) {
    timed_with(|builder| builder).await
}

async fn timed_with(set: impl FnOnce(KeeperBuilder) -> KeeperBuilder) -> (TestStore, Keeper) {
    let clock = Clock::tokio();
    let store = TestStore::with_clock(clock.clone());
    let keeper = set(Keeper::builder(store.clone()).clock(clock)).connect().await.unwrap();
    (store, keeper)
}

/// The reason of the loss, if the lock is lost by now.
fn loss(guard: &Guard) -> Option<LostReason> {
    Some(guard.check().err()?.lost_reason().unwrap().clone())
}

#[tokio::test]
async fn an_expired_30_s_lock_is_lost_at_once_and_free() {
    let store = TestStore::new();
    let (first, second) = (keeper(store.clone()).await, keeper(store.clone()).await);
    let guard = held(&first, "report").await;
    let lost = tokio::spawn(guard.lost());
    let next = tokio::spawn(second.mutex("report").unwrap().lock().into_future());
    while first.inspect("report").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    store.expire("report");
    assert_eq!(loss(&guard), Some(LostReason::Expired));
    assert_eq!(guard.remaining(), Duration::ZERO);
    let next = tokio::time::timeout(Duration::from_secs(20), next).await.unwrap().unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(lost.await.unwrap(), LostReason::Expired);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_expired_lock_takes_no_virtual_time_either() {
    let (store, keeper) = timed().await;
    let guard = held(&keeper, "report").await;
    let start = tokio::time::Instant::now();
    store.expire("report");
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn work_under_an_expired_lock_is_dropped() {
    let store = TestStore::new();
    let keeper = keeper(store.clone()).await;
    let guard = held(&keeper, "report").await;
    let (working, is_working) = tokio::sync::oneshot::channel();
    let work = guard.while_held(async {
        working.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let expire = async {
        is_working.await.unwrap();
        store.expire("report");
    };
    let (worked, ()) = tokio::join!(work, expire);
    assert_eq!(worked.unwrap_err().lost_reason(), Some(&LostReason::Expired));
}

/// The layers of a keeper and the thread of its engine make no difference. The name is the name in
/// the store.
#[tokio::test]
async fn a_loss_is_seen_through_every_layer_and_by_every_keeper() {
    let store = TestStore::new();
    let layered = Prefix::new(Traced::new(Arc::new(store.clone())), "blue/").unwrap();
    let set: [(KeeperBuilder, &str); 3] = [
        (Keeper::builder(layered), "blue/n"),
        (Keeper::builder(store.clone()).prefix("green/"), "green/n"),
        (Keeper::builder(store.clone()).dedicated_thread(), "n"),
    ];
    for (builder, full) in set {
        let keeper = builder.connect().await.unwrap();
        let (guard, other) = (held(&keeper, "n").await, held(&keeper, "other").await);
        store.expire(full);
        assert_eq!(loss(&guard), Some(LostReason::Expired), "{full}");
        assert_eq!(loss(&other), None, "{full}");
        other.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_name_that_nobody_holds_is_a_panic_that_lists_the_others() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).prefix("app/").connect().await.unwrap();
    let guard = held(&keeper, "report").await;
    let panic = catch_unwind(AssertUnwindSafe(|| store.expire("report"))).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("nobody holds \"report\"") && text.contains("app/report"), "{text}");
    guard.check().unwrap();
    store.expire(guard.full_name());
    guard.check().unwrap_err();
}

#[tokio::test]
async fn every_broken_holder_learns_who_and_why_and_waiters_wait_for_the_guard() {
    let store = TestStore::new();
    let keepers = [keeper(store.clone()).await, keeper(store.clone()).await];
    let guards =
        [held(&keepers[0], "a").await, held(&keepers[0], "b").await, held(&keepers[1], "c").await];
    store.break_all();
    let broken =
        LostReason::Broken { by: "TestStore".to_owned(), reason: "break_all()".to_owned() };
    for guard in &guards {
        assert_eq!(loss(guard), Some(broken.clone()));
    }
    let a = keepers[1].mutex("a").unwrap();
    assert!(a.try_lock().await.unwrap().is_none(), "it ends with its lease, or its guard");
    assert!(keepers[1].inspect("a").await.unwrap().holders[0].broken.is_some());
    drop(guards);
    a.lock().wait(Duration::from_secs(20)).await.unwrap().check().unwrap();
}

#[tokio::test]
async fn a_lock_acquired_after_a_break_stays_held() {
    let store = TestStore::new();
    let keeper = keeper(store.clone()).await;
    store.break_all();
    held(&keeper, "n").await.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn four_failed_claims_fail_an_attempt_and_three_do_not() {
    let (store, keeper) = timed().await;
    let mutex = keeper.mutex("n").unwrap();
    for (failures, ends) in [(3, None), (4, Some(ErrorKind::Unavailable))] {
        for _ in 0..failures {
            store.fail_next(Op::Claim, ErrorKind::Unavailable);
        }
        assert_eq!(mutex.lock().await.err().map(|error| error.kind()), ends, "{failures}");
    }
    store.fail_next(Op::Claim, ErrorKind::Denied);
    assert_eq!(
        mutex.lock().await.unwrap_err().kind(),
        ErrorKind::Denied,
        "which no second try would change"
    );
    mutex.lock().await.unwrap().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_lost_takes_its_locks_along() {
    let (store, keeper) = timed().await;
    let guard = held(&keeper, "n").await;
    store.fail_next(Op::Renew, ErrorKind::SessionLost);
    assert_eq!(guard.lost().await, LostReason::SessionExpired);
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_was_not_received_or_did_not_happen() {
    let (store, keeper) = timed().await;
    store.plan(Op::Withdraw, Fault::LostReply);
    held(&keeper, "n").await.release().await.unwrap();
    for _ in 0..4 {
        store.fail_next(Op::Withdraw, ErrorKind::Unavailable);
    }
    let error = held(&keeper, "n").await.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    held(&keeper, "n").await.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_that_operations_alone_and_ends_with_zero() {
    let (store, keeper) = timed().await;
    let took = async |work: &dyn Fn() -> lockkeeper::Acquire<Guard>| -> Result<Duration> {
        let start = tokio::time::Instant::now();
        work().await?.release().await?;
        Ok(start.elapsed())
    };
    let lock = || keeper.mutex("n").unwrap().lock();
    assert_eq!(took(&lock).await.unwrap(), Duration::ZERO);
    store.delay(Op::Claim, Duration::from_secs(2));
    let (locked, looked) = tokio::join!(took(&lock), async {
        let start = tokio::time::Instant::now();
        keeper.inspect("other").await.unwrap();
        start.elapsed()
    });
    assert_eq!(looked, Duration::ZERO);
    // A timer of the runtime may be late by up to a millisecond.
    assert!((2000..2010).contains(&locked.unwrap().as_millis()));
    store.delay(Op::Claim, Duration::ZERO);
    assert_eq!(took(&lock).await.unwrap(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_renewals_is_jeopardy_and_they_resume() {
    let (store, keeper) = timed().await;
    let mut session = keeper.session();
    let guard = held(&keeper, "n").await;
    let [paused, longer] = [store.pause_renewals(), store.pause_renewals()];
    while session.state() != SessionState::Jeopardy {
        session.changed().await;
    }
    guard.check().unwrap();
    paused.resume();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(session.state(), SessionState::Jeopardy, "the other pause goes on");
    drop(longer);
    while session.state() != SessionState::Valid {
        session.changed().await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    guard.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_pause_of_the_renewals_ends_the_lease_on_both_sides() {
    let (store, keeper) = timed_with(|builder| builder.ttl(Duration::from_secs(10))).await;
    let guard = held(&keeper, "n").await;
    let paused = store.pause_renewals();
    let start = tokio::time::Instant::now();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!((9..=10).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let next = held(&keeper, "n").await;
    assert!(next.token() > guard.token());
    drop(paused);
    tokio::time::sleep(Duration::from_secs(60)).await;
    next.check().unwrap();
}

#[tokio::test]
async fn a_pause_works_on_real_time_with_a_short_ttl() {
    let store = TestStore::new();
    let keeper =
        Keeper::builder(store.clone()).ttl(Duration::from_millis(300)).connect().await.unwrap();
    let guard = held(&keeper, "n").await;
    let _paused = store.pause_renewals();
    let lost = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.unwrap();
    assert_eq!(lost, LostReason::Expired);
}

/// The answer to the upgrade may still come, and say that the reader stays a reader.
#[tokio::test]
async fn a_reader_that_expires_during_its_upgrade_is_lost_at_once() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let reader = keeper.rw_lock("n").unwrap().read().await.unwrap();
    let lost = reader.lost();
    store.fail_next(Op::Claim, ErrorKind::Unavailable);
    let expire = async {
        store.expire("n");
        // The loss is known before the upgrade is polled again.
        tokio::select! {
            biased;
            reason = lost => assert_eq!(reason, LostReason::Expired),
            () = tokio::task::yield_now() => panic!("it is believed in"),
        }
    };
    let (upgraded, ()) = tokio::join!(biased; reader.try_upgrade(), expire);
    assert!(upgraded.is_err());
}
