//! Futures that no task polls any more, and work without an await, and their effect on other
//! attempts.

use std::cell::RefCell;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, LostReason, Owner, blocking};
use tokio::time::{sleep, timeout};

use super::spy::{Do, World, millis, secs};

/// Polls the future exactly once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) {
    let is_pending = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending);
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_attempt_that_opens_its_session_delays_no_other() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Open, Do::Late(millis(100)));
    let mut left = pin!(test_client.mutex("left").lock().into_future());
    poll_once(left.as_mut()).await;
    let other = timeout(secs(60), test_client.mutex("other").lock().into_future()).await;
    other.expect("another lock of the same session").unwrap().release().await.unwrap();
    assert_eq!(test_client.spy.asked(Operation::Open).len(), 1);
    left.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn attempts_in_an_outage_fail_together_and_not_one_after_the_other() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Open, Do::FailAfter(secs(3), ErrorKind::Unavailable));
    let start = world.now();
    let attempts: Vec<_> = (0..20)
        .map(|i| tokio::spawn(test_client.mutex(&format!("n/{i}")).lock().into_future()))
        .collect();
    for attempt in attempts {
        assert_eq!(attempt.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    let took = world.now().saturating_since(start);
    assert!(took < secs(20), "{took:?}: four tries of three seconds, and their pauses");
}

/// The fixed lease begins with a renewal after the grant, and no task polls that renewal.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_is_polled_no_more_while_it_begins_is_given_back() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client_by_session(secs(60), 0).await, world.test_client(secs(60)).await);
    test_client.spy.once(Operation::Open, Do::Late(secs(10)));
    test_client.spy.always(Operation::Renew, Do::Late(secs(1)));
    let mut left = pin!(test_client.mutex("n").lock().lease(secs(60)).into_future());
    poll_once(left.as_mut()).await;
    sleep(secs(11)).await;
    poll_once(left.as_mut()).await;
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), 1, "it is granted");
    let next = timeout(secs(12), other.mutex("n").lock().into_future()).await;
    next.expect("it is held by nobody").unwrap().release().await.unwrap();
    assert_eq!(test_client.count("lost: Uncollected"), 1);
    left.await.unwrap().release().await.unwrap();
}

/// An attempt that asks again and again is alive.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_cannot_begin_for_longer_than_a_waiters_life_is_kept_for_its_attempt() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(60), 0).await;
    test_client.spy.once(Operation::Open, Do::Late(secs(10)));
    let back = world.now() + secs(22);
    let clock = world.clock.clone();
    let fails = Do::FailAfter(secs(1), ErrorKind::Unavailable);
    test_client.spy.rule(move |asked| {
        (asked.operation == Operation::Renew && clock.now() < back).then(|| fails.clone())
    });
    let guard = test_client.mutex("n").lock().lease(secs(60)).await.unwrap();
    assert!(world.now() >= back, "that was long");
    assert_eq!((test_client.spy.asked(Operation::Claim).len(), test_client.count("lost")), (1, 0));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_granted_to_an_unpolled_attempt_is_released() {
    let world = World::new();
    for by_session in [false, true] {
        let holder = world.test_client(secs(60)).await;
        let test_client = if by_session {
            world.test_client_by_session(secs(12), 0).await
        } else {
            world.test_client(secs(12)).await
        };
        let held = holder.mutex("n").lock().await.unwrap();
        let mut left = pin!(test_client.mutex("n").lock().into_future());
        poll_once(left.as_mut()).await;
        held.release().await.unwrap();
        let start = world.now();
        // The pause is the lifetime of a waiter, a third of the ttl, and the renewal that found the
        // grant.
        let next = timeout(secs(12), holder.mutex("n").lock().into_future()).await;
        let next = next.expect("it is held by nobody").unwrap();
        assert!(world.now().saturating_since(start) >= secs(5), "it had its time");
        assert_eq!(test_client.count("lost: Uncollected"), 1);
        let again = async { left.await.unwrap().release().await.unwrap() };
        let release = async {
            sleep(secs(1)).await;
            next.release().await.unwrap();
        };
        tokio::join!(again, release);
        assert_eq!(world.line("n").await.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_polled_late_but_in_time_has_its_lock() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let mut slow = pin!(test_client.mutex("n").lock().into_future());
    poll_once(slow.as_mut()).await;
    held.release().await.unwrap();
    sleep(secs(4)).await;
    let guard = slow.await.unwrap();
    sleep(secs(60)).await;
    guard.check().unwrap();
    assert_eq!(test_client.count("lost"), 0);
}

#[tokio::test]
async fn an_engine_with_its_own_thread_releases_an_uncollected_lock() {
    let world = World::real();
    let holder = world.test_client(secs(60)).await;
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(30)).dedicated_thread()).await;
    test_client.spy.once(Operation::Claim, Do::Late(millis(50)));
    let mut left = pin!(test_client.mutex("n").lock().into_future());
    poll_once(left.as_mut()).await;
    let next = holder.mutex("n").lock().wait(secs(90)).await.unwrap();
    assert_eq!(test_client.count("lost: Uncollected"), 1);
    next.release().await.unwrap();
    let late = left.await.unwrap();
    assert_eq!(late.check().unwrap_err().lost_reason(), Some(&LostReason::Uncollected));
}

#[tokio::test(start_paused = true)]
async fn a_task_behind_an_unpolled_attempt_of_its_process_gets_the_lock() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(12)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let (mut left, mut next) = (
        pin!(test_client.mutex("n").lock().into_future()),
        pin!(test_client.mutex("n").lock().into_future()),
    );
    poll_once(left.as_mut()).await;
    poll_once(next.as_mut()).await;
    held.release().await.unwrap();
    // The lock goes to an attempt that no task polls, and then to another such attempt.
    let behind = timeout(secs(60), test_client.mutex("n").lock().into_future()).await;
    behind.expect("it stands in line by itself").unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_with_an_unpolled_attempt_gets_the_lock_by_another() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(12)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let (mutex, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let (mut left, mut next) =
        (pin!(mutex.lock(&me).into_future()), pin!(mutex.lock(&me).into_future()));
    poll_once(left.as_mut()).await;
    poll_once(next.as_mut()).await;
    held.release().await.unwrap();
    // The lock goes to an attempt that no task polls, and then to another such attempt.
    let behind = timeout(secs(60), mutex.lock(&me).into_future()).await;
    let guard = behind.expect("nobody holds the lock").unwrap();
    mutex.lock(&me).await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    left.await.unwrap().release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
    assert_eq!((world.line("n").await.len(), test_client.keeper.leftovers()), (0, 0));
}

/// The timers of both attempts end at the same moment, and the waiting attempt is polled first.
#[tokio::test(start_paused = true)]
async fn an_owner_shares_with_an_attempt_delayed_by_a_pause() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let (mutex, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let (mut first, mut second) =
        (pin!(mutex.lock(&me).into_future()), pin!(mutex.lock(&me).into_future()));
    poll_once(first.as_mut()).await;
    poll_once(second.as_mut()).await;
    tokio::time::advance(secs(16)).await;
    poll_once(second.as_mut()).await;
    poll_once(first.as_mut()).await;
    held.release().await.unwrap();
    let (one, other) =
        timeout(secs(60), async { tokio::join!(first, second) }).await.expect("they share it");
    assert_eq!(one.unwrap().token(), other.unwrap().token());
}

#[tokio::test]
async fn an_owner_does_not_share_a_lock_that_nobody_came_for() {
    let world = World::real();
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(30)).dedicated_thread()).await;
    let (mutex, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    test_client.spy.once(Operation::Claim, Do::Late(millis(50)));
    let mut left = pin!(mutex.lock(&me).into_future());
    poll_once(left.as_mut()).await;
    while test_client.count("lost: Uncollected") == 0 {
        sleep(millis(20)).await;
    }
    mutex.lock(&me).wait(secs(90)).await.unwrap().release().await.unwrap();
}

/// Each try would wait for the store for as long as the store opens a session.
#[tokio::test(start_paused = true)]
async fn tries_that_are_over_leave_nothing_behind_while_a_session_opens() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Open, Do::Hang);
    for i in 0..50 {
        let error = test_client.mutex(&format!("n/{i}")).try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks < 20, "{tasks} tasks");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_in_line_for_an_hour_keeps_its_turn() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let waiting = [0, 1].map(|_| tokio::spawn(test_client.mutex("n").lock().into_future()));
    sleep(secs(3600)).await;
    assert_eq!(world.line("n").await.len(), 2, "one of them stands in the store's line");
    held.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// The runtime has another worker, which finds the renewal while this worker is busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_without_an_await_after_a_wait_keeps_the_lock() {
    let world = World::real();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let mutex = test_client.mutex("n");
    let working = tokio::spawn(async move {
        let guard = mutex.lock().await.unwrap();
        // The lifetime of a waiter is 5 s.
        std::thread::sleep(millis(5200));
        let held = guard.check();
        guard.release().await.unwrap();
        held
    });
    sleep(millis(200)).await;
    held.release().await.unwrap();
    working.await.unwrap().unwrap();
}

/// The store may have the claim, or get it later.
#[tokio::test(start_paused = true)]
async fn an_unanswered_claim_is_withdrawn_with_a_tombstone_after_its_time() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.mutex("other").lock().await.unwrap().release().await.unwrap();
    test_client.spy.once(Operation::Claim, Do::Hang);
    let mut left = pin!(test_client.mutex("n").lock().into_future());
    poll_once(left.as_mut()).await;
    sleep(secs(30)).await;
    let withdrawn = test_client.spy.last(Operation::Withdraw);
    assert_eq!(withdrawn.ids, test_client.spy.last(Operation::Claim).ids);
    assert_eq!(withdrawn.tombstone, Some(secs(60)));
}

#[tokio::test(start_paused = true)]
async fn a_try_at_a_silent_store_ends_within_five_seconds() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Claim, Do::FailAfter(secs(3), ErrorKind::Unavailable));
    let start = world.now();
    let error = test_client.mutex("n").try_lock().await.unwrap_err();
    let took = world.now().saturating_since(start);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(took <= millis(5001), "{took:?}");
    test_client.spy.no_rules();
    test_client
        .mutex("n")
        .try_lock()
        .await
        .unwrap()
        .expect("nothing is left of it")
        .release()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_try_without_an_answer_keeps_the_remedy_of_what_failed_last() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Claim, Do::FailAfter(secs(3), ErrorKind::Unavailable));
    let error = test_client.mutex("n").try_lock().await.unwrap_err();
    assert_eq!(error.remedy(), Some("the spy"), "{error}");
    test_client.spy.no_rules();
    test_client.spy.always(Operation::Claim, Do::Hang);
    let error = test_client.mutex("n").try_lock().await.unwrap_err();
    assert_eq!(error.remedy(), Some("again when the store is back"), "{error}");
}

thread_local! {
    static LEASE: RefCell<Option<blocking::Guard>> = const { RefCell::new(None) };
}

/// The thread-local of the guard was made before the thread-locals of tokio and of the subscriber,
/// so it is dropped after them.
#[test]
fn a_guard_that_ends_with_its_thread_is_released() {
    let keeper = blocking::Keeper::memory();
    let there = keeper.clone();
    let lease = move || {
        let _default = tracing::subscriber::set_default(tracing_subscriber::Registry::default());
        LEASE.with_borrow_mut(|lease| *lease = Some(there.mutex("n").unwrap().lock().unwrap()));
    };
    std::thread::spawn(lease).join().unwrap();
    let next = keeper.mutex("n").unwrap().attempt().wait(secs(5)).lock().unwrap();
    next.release().unwrap();
}
