//! The minimum hold: the results of its attempts, and the claims that they leave.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockkeeper::layer::Operation;
use lockkeeper::store::{Admin, Evict, Evicted, Target};
use lockkeeper::{Effect, ErrorKind, Owner};
use tokio::time::{sleep, timeout};

use super::spy::{Do, TestClient, World, secs};

/// Polls the future exactly once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) {
    let is_pending = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending);
}

/// A client with an open session.
async fn test_client(world: &World) -> TestClient {
    let test_client = world.test_client(secs(12)).await;
    test_client.mutex("other").lock().await.unwrap().release().await.unwrap();
    test_client
}

/// Polls a future of the memory store, which answers at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready,
        Poll::Pending => panic!("it answers at once"),
    }
}

/// Removes one of the last claims before the next change of a claim. `back` is 1 for the last
/// claim.
fn remove_before_the_change(world: &World, test_client: &TestClient, back: usize) {
    let (store, spy) = (world.store.clone(), Arc::clone(&test_client.spy));
    let remove = move || {
        let asked = spy.asked(Operation::Claim);
        let claim = &asked[asked.len() - back];
        let target = Target::Id(claim.ids[0].hash());
        let evicted = store.evict(&claim.names[0], &target, Evict::Now, "op", "stuck");
        assert_eq!(at_once(evicted).unwrap(), Evicted::Done);
    };
    test_client.spy.once(Operation::Amend, Do::First(Arc::new(remove)));
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_before_the_store_kept_anything_is_acquired_again() {
    let world = World::new();
    let test_client = test_client(&world).await;
    remove_before_the_change(&world, &test_client, 1);
    let guard = test_client.mutex("n").lock().min_hold(secs(60)).wait(secs(10)).await.unwrap();
    guard.check().unwrap();
    assert_eq!(test_client.spy.asked(Operation::Amend).len(), 2);
}

/// The attempt starts again after a pause, in which no task polls it.
#[tokio::test(start_paused = true)]
async fn a_multi_locks_remaining_part_is_released_before_the_pause() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(60)).await, test_client(&world).await);
    remove_before_the_change(&world, &test_client, 2);
    let both = test_client.keeper.multi_lock(["a", "b"]).unwrap();
    let mut left = pin!(both.lock().min_hold(secs(3600)).into_future());
    poll_once(left.as_mut()).await;
    assert_eq!(test_client.spy.asked(Operation::Amend).len(), 1, "it is in the pause");
    let next = timeout(secs(60), holder.mutex("b").lock().into_future()).await;
    next.expect("it is held by nobody").unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_gives_up_before_its_answer_comes_keeps_nothing() {
    let world = World::new();
    let test_client = test_client(&world).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(4)));
    let error = test_client.mutex("n").lock().wait(secs(3)).min_hold(secs(3600)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    sleep(secs(20)).await;
    assert_eq!(world.line("n").await.len(), 0);
    assert_eq!(test_client.spy.asked(Operation::Amend).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_during_a_keep_request_is_not_reported_as_without_effect() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(60)).await, test_client(&world).await);
    let held = holder.mutex("n").lock().await.unwrap();
    test_client.spy.once(Operation::Amend, Do::Late(secs(10)));
    let waiting = tokio::spawn(
        test_client.mutex("n").lock().wait(secs(5)).min_hold(secs(3600)).into_future(),
    );
    sleep(secs(1)).await;
    held.release().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_during_a_keep_request_gets_the_lock_with_the_answer() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(60)).await, test_client(&world).await);
    let held = holder.mutex("n").lock().await.unwrap();
    test_client.spy.once(Operation::Amend, Do::Late(secs(5)));
    let waiting = tokio::spawn(
        test_client.mutex("n").lock().wait(secs(5)).min_hold(secs(3600)).into_future(),
    );
    sleep(secs(1)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    guard.check().unwrap();
    assert!(guard.waited() > secs(5), "{:?}", guard.waited());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_between_two_parts_keeps_the_first_and_reports_it() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(60)).await, test_client(&world).await);
    let held = holder.mutex("b").lock().await.unwrap();
    test_client.spy.once(Operation::Amend, Do::Late(secs(10)));
    let both = test_client.keeper.multi_lock(["a", "b"]).unwrap();
    let waiting = tokio::spawn(both.lock().wait(secs(5)).min_hold(secs(3600)).into_future());
    sleep(secs(1)).await;
    held.release().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    sleep(secs(60)).await;
    assert_eq!(test_client.spy.asked(Operation::Amend).len(), 1, "nobody waits for the second");
    assert_eq!([world.line("a").await.len(), world.line("b").await.len()], [1, 0]);
}

/// The last share of the claim belongs to the attempt, and no task polls the attempt.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_guard_is_gone_is_given_back_where_only_an_attempt_that_is_left_shares_it() {
    let world = World::new();
    let test_client = test_client(&world).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let guard = ledger.lock(&me).await.unwrap();
    test_client.spy.once(Operation::Amend, Do::Late(secs(1000)));
    let mut left = pin!(ledger.lock(&me).min_hold(secs(1)).into_future());
    poll_once(left.as_mut()).await;
    sleep(secs(120)).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    sleep(secs(30)).await;
    assert_eq!((world.line("n").await.len(), test_client.count("lost: Uncollected")), (0, 1));
}

/// Two guards of an owner are one claim. An attempt of the owner that no task polls takes nothing
/// from the other guard.
#[tokio::test(start_paused = true)]
async fn a_claim_with_a_guard_is_not_released_for_an_abandoned_attempt() {
    let world = World::new();
    let test_client = test_client(&world).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    test_client.spy.once(Operation::Amend, Do::Late(secs(1000)));
    let mut left = pin!(ledger.lock(&me).min_hold(secs(3600)).into_future());
    poll_once(left.as_mut()).await;
    let guard = ledger.lock(&me).await.unwrap();
    sleep(secs(2)).await;
    poll_once(left.as_mut()).await;
    sleep(secs(120)).await;
    guard.check().unwrap();
    // Without its last guard the claim belongs to the attempt alone, and no task polls the attempt.
    drop(guard);
    sleep(secs(30)).await;
    assert_eq!(test_client.count("lost: Uncollected"), 1);
}
