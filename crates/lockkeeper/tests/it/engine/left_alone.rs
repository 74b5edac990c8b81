//! Attempts that no task polls, stores that panic, engines whose runtime has ended, and locks
//! beside a lost lock.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use lockkeeper::layer::Operation;
use lockkeeper::store::{Capabilities, Expiry};
use lockkeeper::testing::TestStore;
use lockkeeper::{ErrorKind, Handle, Keeper, LostReason};
use tokio::time::{sleep, timeout};

use super::spy::{Do, TestClient, World, millis, secs};

/// Polls the future exactly once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) {
    let is_pending = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending);
}

async fn test_client(world: &World, by_session: bool) -> TestClient {
    if by_session {
        world.test_client_by_session(secs(12), 0).await
    } else {
        world.test_client(secs(12)).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_uncollected_pushed_grant_is_released() {
    for by_session in [false, true] {
        let world = World::new();
        let (holder, test_client) =
            (world.test_client(secs(60)).await, test_client(&world, by_session).await);
        let held = holder.mutex("n").lock().await.unwrap();
        let mut left = pin!(test_client.mutex("n").lock().into_future());
        poll_once(left.as_mut()).await;
        held.release().await.unwrap();
        // The attempt learns that it was granted, and yields to the watchdog first.
        poll_once(left.as_mut()).await;
        let next = timeout(secs(12), holder.mutex("n").lock().into_future()).await;
        next.expect("it is held by nobody").unwrap().release().await.unwrap();
        assert_eq!(test_client.count("lost: Uncollected"), 1);
        left.await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_being_confirmed_for_nobody_is_given_back() {
    let world = World::new();
    let mut can = Capabilities::full();
    can.expiry = Expiry::Session { proof_lag: 0 };
    can.resumable = false;
    let holder = world.test_client(secs(60)).await;
    let test_client =
        world.test_client_on(can, None, |b| b.ttl(secs(12)).lock_delay(secs(1))).await;
    let held = holder.mutex("n").lock_delay(secs(1)).lock().await.unwrap();
    let mut left = pin!(test_client.mutex("n").lock().into_future());
    poll_once(left.as_mut()).await;
    held.release().await.unwrap();
    test_client.spy.once(Operation::Renew, Do::Late(millis(10)));
    poll_once(left.as_mut()).await;
    let next = timeout(secs(14), holder.mutex("n").lock().into_future()).await;
    next.expect("it is held by nobody").unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_multi_locks_parts_are_released_when_it_is_polled_no_more() {
    for by_session in [false, true] {
        let world = World::new();
        let (holder, test_client) =
            (world.test_client(secs(60)).await, test_client(&world, by_session).await);
        let last = holder.mutex("c").lock().await.unwrap();
        let several = test_client.keeper.multi_lock(["a", "b", "c"]).unwrap();
        let mut left = pin!(several.lock().into_future());
        poll_once(left.as_mut()).await;
        for name in ["a", "b"] {
            let next = timeout(secs(12), holder.mutex(name).lock().into_future()).await;
            next.expect("it is held by nobody").unwrap().release().await.unwrap();
        }
        last.release().await.unwrap();
        left.await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_keeps_its_parts_as_long_as_it_waits() {
    for by_session in [false, true] {
        let world = World::new();
        let (holder, test_client) =
            (world.test_client(secs(60)).await, test_client(&world, by_session).await);
        let last = holder.mutex("c").lock().await.unwrap();
        let waiting = tokio::spawn(
            test_client.keeper.multi_lock(["a", "b", "c"]).unwrap().lock().into_future(),
        );
        sleep(secs(1)).await;
        let lines = [world.line("a").await, world.line("b").await];
        sleep(secs(3600)).await;
        assert_eq!([world.line("a").await, world.line("b").await], lines);
        last.release().await.unwrap();
        let all = waiting.await.unwrap().unwrap();
        sleep(secs(3600)).await;
        all.check().unwrap();
        assert_eq!(test_client.count("lost"), 0);
        all.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_nobody_reads_is_given_back_before_its_ttl() {
    for by_session in [false, true] {
        let world = World::new();
        let holder = world.test_client(secs(60)).await;
        let test_client = if by_session {
            world.test_client_by_session(secs(3600), 0).await
        } else {
            world.test_client(secs(3600)).await
        };
        test_client.spy.once(Operation::Claim, Do::Late(millis(100)));
        let mut left = pin!(test_client.mutex("n").lock().into_future());
        poll_once(left.as_mut()).await;
        assert_eq!(world.line("n").await.len(), 1, "it was granted");
        let next = timeout(secs(30), holder.mutex("n").lock().into_future()).await;
        next.expect("it is held by nobody").unwrap().release().await.unwrap();
        left.await.unwrap().release().await.unwrap();
    }
}

/// A fixed lease is not renewed, so no renewal can find out that no task collects the grant.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_nobody_collects_is_given_back_before_its_end() {
    for (by_session, confirming) in [(false, false), (false, true), (true, false), (true, true)] {
        let world = World::new();
        let (holder, test_client) =
            (world.test_client(secs(60)).await, test_client(&world, by_session).await);
        let held = holder.mutex("n").lock().await.unwrap();
        let mut left = pin!(test_client.mutex("n").lock().lease(secs(3600)).into_future());
        poll_once(left.as_mut()).await;
        held.release().await.unwrap();
        if confirming {
            test_client.spy.once(Operation::Renew, Do::Late(millis(10)));
            poll_once(left.as_mut()).await;
        }
        let next = timeout(secs(12), holder.mutex("n").lock().into_future()).await;
        next.expect("it is held by nobody").unwrap().release().await.unwrap();
        left.await.unwrap().release().await.unwrap();
    }
}

/// The pushed grant had the rest of a waiter's lifetime. The other locks have a ttl that the
/// session's renewals prove.
#[tokio::test(start_paused = true)]
async fn an_unrenewed_pushed_grant_ends_no_other_lock_of_its_session() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client_by_session(secs(30), 0).await);
    let kept = test_client.mutex("kept").lock().await.unwrap();
    let held = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(secs(1)).await;
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    held.release().await.unwrap();
    let pushed = waiting.await.unwrap().unwrap();
    assert_eq!(pushed.lost().await, LostReason::Expired);
    kept.check().unwrap();
    test_client.spy.no_rules();
    sleep(secs(60)).await;
    kept.check().unwrap();
    assert_eq!(test_client.count("lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_for_a_loss_sees_none_after_an_orderly_release() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let mut guards = Vec::new();
    for i in 0..800 {
        guards.push(test_client.mutex(&format!("n/{i}")).lock().await.unwrap());
    }
    let ids: Vec<_> =
        test_client.spy.asked(Operation::Claim).iter().map(|asked| asked.ids[0]).collect();
    test_client.spy.once(Operation::Renew, Do::Slow(millis(200)));
    while test_client.spy.asked(Operation::Renew).is_empty() {
        sleep(millis(10)).await;
    }
    // The watchdog already has the claims of the next batch on its list.
    let first = test_client.spy.last(Operation::Renew).ids;
    let mut losses = Vec::new();
    for (guard, id) in guards.into_iter().zip(ids) {
        if !first.contains(&id) {
            losses.push(guard.lost());
            guard.release().await.unwrap();
        }
    }
    sleep(secs(1)).await;
    for lost in &mut losses {
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *lost).poll(cx))).await;
        assert_eq!(polled, Poll::Pending);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_opens_sessions_slower_than_their_ttl_causes_no_endless_attempt() {
    for by_session in [false, true] {
        let world = World::new();
        let test_client = if by_session {
            world.test_client_by_session(secs(1), 0).await
        } else {
            world.test_client(secs(1)).await
        };
        test_client.spy.always(Operation::Open, Do::Late(secs(2)));
        let attempt = timeout(secs(600), test_client.mutex("n").lock().into_future()).await;
        match attempt.expect("it has an end") {
            Ok(guard) => guard.release().await.map(drop).unwrap(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_once_while_opening_a_session_can_be_asked_again() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Open, Do::First(Arc::new(|| panic!("the spy panics"))));
    let mutex = test_client.mutex("n");
    let error = mutex.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_does_not_panic_in_a_guards_drop() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.once(Operation::Withdraw, Do::First(Arc::new(|| panic!("the spy panics"))));
    drop(guard);
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
}

/// Two guards of one handle, in one process.
#[tokio::test]
async fn a_loss_reported_by_the_store_reaches_every_guard_of_the_claim() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let text = keeper.mutex("n").unwrap().lock().detached(secs(60)).await.unwrap().expose();
    let adopt = || keeper.adopt(text.parse::<Handle>().unwrap()).unwrap();
    let guards = [adopt(), adopt()];
    for guard in &guards {
        guard.renew_once().await.unwrap();
    }
    store.expire("n");
    for guard in guards {
        assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
    }
}

/// The attempt runs on a thread outside the runtime in which the keeper was connected.
#[test]
fn an_attempt_learns_that_its_keepers_runtime_has_ended() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let first = runtime();
    let world = World::real();
    let (test_client, held) = first.block_on(async {
        let test_client = world.test_client(secs(30)).await;
        let held = test_client.mutex("n").lock().await.unwrap();
        (test_client, held)
    });
    let mutex = test_client.mutex("n");
    let waiting =
        std::thread::spawn(move || runtime().block_on(mutex.lock().wait(secs(20)).into_future()));
    while first.block_on(world.line("n")).len() < 2 {
        std::thread::yield_now();
    }
    drop(first);
    let error = waiting.join().expect("it does not panic").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop(held);
}

/// The release has to be sent again, and the pause before that is a timer of the runtime that ends.
#[test]
fn a_release_learns_that_its_keepers_runtime_has_ended() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let first = runtime();
    let (test_client, held) = first.block_on(async {
        let test_client = World::real().test_client(secs(30)).await;
        let held = test_client.mutex("n").lock().await.unwrap();
        (test_client, held)
    });
    let mut left = 3;
    test_client.spy.rule(move |asked| {
        let fails = asked.operation == Operation::Withdraw && left > 0;
        left -= u32::from(fails);
        fails.then_some(Do::FailAfter(secs(3), ErrorKind::Unavailable))
    });
    let releasing = std::thread::spawn(move || runtime().block_on(held.release()));
    while test_client.spy.asked(Operation::Withdraw).is_empty() {
        std::thread::yield_now();
    }
    drop(first);
    let error = releasing.join().expect("it does not panic").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
