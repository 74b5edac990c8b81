//! A re-entry sends no request.

use std::future::IntoFuture;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, LostReason, Owner};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_depth_of_eight_is_one_acquire_and_one_release() {
    let test_client = World::new().test_client(secs(30)).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let mut guards = Vec::new();
    for _ in 0..8 {
        guards.push(ledger.lock(&me).await.unwrap());
    }
    while let Some(guard) = guards.pop() {
        guard.release().await.unwrap();
    }
    let asked = [Operation::Claim, Operation::Withdraw]
        .map(|operation| test_client.spy.asked(operation).len());
    assert_eq!(asked, [1, 1]);
    assert_eq!((test_client.count("acquired"), test_client.count("released")), (1, 1));
    assert_eq!(test_client.keeper.leftovers(), 0);
}

/// A share that no attempt took is given back. The claim ends with the last share.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_leaves_the_others_their_claim() {
    let test_client = World::new().test_client(secs(30)).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    test_client.spy.once(Operation::Claim, Do::Late(millis(100)));
    let first = tokio::spawn(ledger.lock(&me).into_future());
    sleep(millis(10)).await;
    let second = tokio::spawn(ledger.lock(&me).into_future());
    sleep(millis(10)).await;
    first.abort();
    let guard = second.await.unwrap().unwrap();
    sleep(secs(1)).await;
    guard.check().unwrap();
    assert_eq!(
        test_client.spy.asked(Operation::Claim).len()
            - test_client.spy.asked(Operation::Withdraw).len(),
        1
    );
    guard.release().await.unwrap();
    assert_eq!(test_client.keeper.leftovers(), 0);
}

/// When the first attempt fails, the attempt behind it sends its own claim.
#[tokio::test(start_paused = true)]
async fn a_failure_is_not_shared() {
    let test_client = World::new().test_client(secs(30)).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let mut refusals = 1;
    test_client.spy.rule(move |asked| {
        let refused = asked.operation == Operation::Claim && refusals > 0;
        refusals -= i32::from(refused);
        refused.then_some(Do::Fail(ErrorKind::Denied))
    });
    let (first, second) = tokio::join!(ledger.lock(&me), ledger.lock(&me));
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Denied);
    second.unwrap().release().await.unwrap();
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_leaves_the_others_the_lock() {
    let test_client = World::new().test_client(secs(30)).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let (one, other) = (ledger.lock(&me).await.unwrap(), ledger.lock(&me).await.unwrap());
    drop(one);
    sleep(secs(60)).await;
    other.check().unwrap();
    assert_eq!(
        (
            test_client.spy.asked(Operation::Withdraw).len(),
            test_client.count("DroppedWithoutRelease")
        ),
        (0, 0)
    );
    drop(other);
    assert_eq!(
        (
            test_client.spy.asked(Operation::Withdraw).len(),
            test_client.count("DroppedWithoutRelease")
        ),
        (1, 1)
    );
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// The engine's thread has the second share ready, and no task polls its attempt any more.
#[tokio::test]
async fn a_share_that_nobody_collects_does_not_keep_the_lock() {
    let world = World::real();
    let holder = world.test_client(secs(60)).await;
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(30)).dedicated_thread()).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    test_client.spy.once(Operation::Claim, Do::Late(millis(50)));
    let woken = Arc::new(Woken(Notify::new()));
    let mut first = Box::pin(ledger.lock(&me).into_future());
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waker = Arc::clone(&woken).into();
    let mut left = Box::pin(ledger.lock(&me).into_future());
    assert!(left.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let guard = first.await.unwrap();
    woken.0.notified().await;
    let other = ledger.lock(&me).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(world.line("n").await.len(), 1, "another guard has it");
    other.release().await.unwrap();
    let next = holder.mutex("n").lock().wait(secs(60)).await.expect("it is held by nobody");
    assert_eq!(test_client.count("lost: Uncollected"), 1);
    let late = left.await.unwrap();
    assert_eq!(late.check().unwrap_err().lost_reason(), Some(&LostReason::Uncollected));
    drop(late);
    next.release().await.unwrap();
    assert_eq!((world.line("n").await.len(), test_client.keeper.leftovers()), (0, 0));
}

/// The last share of a hold can be a share that the engine's thread had ready and no attempt
/// collected. An event reports its end like the end of a guard.
#[tokio::test]
async fn the_last_share_is_reported_though_nobody_took_it() {
    let test_client =
        World::real().test_client_with(|builder| builder.ttl(secs(30)).dedicated_thread()).await;
    let (ledger, me) = (test_client.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    test_client.spy.once(Operation::Claim, Do::Late(millis(50)));
    let woken = Arc::new(Woken(Notify::new()));
    let mut first = Box::pin(ledger.lock(&me).into_future());
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waker = Arc::clone(&woken).into();
    let mut second = Box::pin(ledger.lock(&me).into_future());
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let guard = first.await.unwrap();
    woken.0.notified().await;
    drop(guard);
    assert_eq!(test_client.count("DroppedWithoutRelease"), 0, "the other share is there");
    drop(second);
    test_client.keeper.clone().shutdown(secs(5)).await.unwrap();
    assert_eq!(test_client.count("DroppedWithoutRelease"), 1);
    assert_eq!(test_client.keeper.leftovers(), 0);
}
