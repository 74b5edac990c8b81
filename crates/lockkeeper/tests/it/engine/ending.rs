//! Releases, drops and shutdowns.

use std::future::{Future, IntoFuture, poll_fn};
use std::task::Poll;

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, Keeper, LostReason};
use tokio::time::{sleep, timeout};

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_is_finished_by_the_engine() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.once(Operation::Withdraw, Do::Slow(secs(1)));
    let mut release = Box::pin(guard.release());
    assert!(poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_pending())).await);
    drop(release);
    sleep(secs(2)).await;
    assert_eq!(world.line("n").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_is_repeated_until_the_store_receives_it() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let [one, two] = [
        test_client.mutex("one").lock().await.unwrap(),
        test_client.mutex("two").lock().await.unwrap(),
    ];
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
    assert_eq!(one.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(two);
    sleep(secs(5)).await;
    test_client.spy.no_rules();
    sleep(secs(3)).await;
    assert_eq!((world.line("one").await.len(), world.line("two").await.len()), (0, 0));
}

/// The store would refuse the withdrawal for the same reason, and a shutdown would wait for it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_refused_without_effect_is_not_withdrawn() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Fail(ErrorKind::Unsupported));
    let refused = test_client.mutex("n").lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    sleep(secs(1)).await;
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 0);
    // The answer to an earlier copy of this claim is lost, so the store may have the claim.
    test_client.spy.once(Operation::Claim, Do::LoseReply);
    let asked = test_client.spy.asked(Operation::Claim).len();
    test_client.spy.rule(move |request| {
        (request.operation == Operation::Claim && request.resend)
            .then(|| Do::Fail(ErrorKind::Unsupported))
    });
    test_client.mutex("n").lock().await.unwrap_err();
    sleep(secs(1)).await;
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), asked + 2);
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 1);
    assert_eq!(world.line("n").await.len(), 0);
}

/// The drop itself sends the first request, so no later request of the same task can overtake it.
#[tokio::test(start_paused = true)]
async fn the_release_of_a_dropped_guard_is_sent_before_the_drop_returns() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    drop(guard);
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 1);
}

#[test]
fn a_guard_that_outlives_its_runtime_can_be_dropped() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (guard, test_client) = runtime.block_on(async {
        let test_client = World::real().test_client(secs(30)).await;
        (test_client.mutex("n").lock().await.unwrap(), test_client)
    });
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
    drop(runtime);
    guard.check().unwrap();
    drop(guard);
    drop(test_client);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_waiters_and_loses_held_locks_before_the_store_frees_them() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let _taken = holder.mutex("taken").lock().await.unwrap();
    let guard = test_client.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("taken").lock().into_future());
    sleep(millis(100)).await;
    let lost = tokio::spawn({
        let (lost, world) = (guard.lost(), world.clone());
        async move { (lost.await, world.line("n").await.len()) }
    });
    test_client.spy.once(Operation::Close, Do::Fail(ErrorKind::Unavailable));
    test_client.keeper.clone().shutdown(secs(10)).await.unwrap();
    assert_eq!(
        timeout(secs(1), waiting).await.unwrap().unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(lost.await.unwrap(), (LostReason::Shutdown, 1));
    assert_eq!(test_client.count("lost"), 1);
    assert_eq!(world.line("n").await.len(), 0, "what got lost was sent again");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_waits_before_all_releases_are_received() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let _taken = holder.mutex("taken").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("taken").lock().into_future());
    test_client.spy.once(Operation::Withdraw, Do::Late(secs(5)));
    drop(test_client.mutex("slow").lock().await.unwrap());
    let shutdown = tokio::spawn(test_client.keeper.clone().shutdown(secs(60)));
    assert_eq!(
        timeout(secs(1), waiting).await.unwrap().unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
    shutdown.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_reports_that_the_store_did_not_receive_it() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let _guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Close, Do::Fail(ErrorKind::Unavailable));
    let error = test_client.keeper.shutdown(secs(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn two_shutdowns_at_once_both_end() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Withdraw, Do::Late(secs(5)));
    drop(test_client.mutex("n").lock().await.unwrap());
    let patient = tokio::spawn(test_client.keeper.clone().shutdown(secs(60)));
    let start = world.now();
    assert!(test_client.keeper.shutdown(secs(1)).await.is_err());
    patient.await.unwrap().unwrap();
    assert!(world.now().saturating_since(start) < secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_was_shut_down_opens_no_session() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(2)));
    let attempt = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(secs(1)).await;
    test_client.keeper.clone().shutdown(secs(10)).await.unwrap();
    assert_eq!(attempt.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    sleep(secs(5)).await;
    assert_eq!(test_client.spy.asked(Operation::Open).len(), 1);
    assert_eq!(world.line("n").await.len(), 0);
}

/// The engine's thread goes on while the caller's thread is blocked.
#[test]
fn an_engine_with_a_thread_of_its_own_renews_while_nobody_polls() {
    let keeper = Keeper::memory();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let guard =
        runtime.block_on(keeper.mutex("n").unwrap().ttl(millis(300)).lock().into_future()).unwrap();
    std::thread::sleep(millis(900));
    guard.check().unwrap();
    drop(guard);
    let next = runtime.block_on(keeper.mutex("n").unwrap().try_lock().into_future()).unwrap();
    assert!(next.is_some());
}

/// The shutdown waits only for requests that change the store, and not for clients that look at it.
#[test]
fn a_shutdown_of_an_engine_with_its_own_thread_ignores_lookers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let test_client =
            World::real().test_client_with(|b| b.ttl(secs(30)).dedicated_thread()).await;
        let _guard = test_client.mutex("n").lock().await.unwrap();
        test_client.spy.always(Operation::Wait, Do::Hang);
        let looks = [(); 2].map(|()| {
            let mut watch = test_client.keeper.watch("n").unwrap();
            tokio::spawn(async move { while watch.changed().await.is_ok() {} })
        });
        while test_client.spy.asked(Operation::Wait).len() < looks.len() {
            sleep(millis(1)).await;
        }
        // One look is dropped, and one look goes on.
        let [dropped, looking] = looks;
        dropped.abort();
        test_client.keeper.clone().shutdown(secs(5)).await.unwrap();
        looking.abort();
    });
}

/// The call is in another runtime than the runtime in which the keeper was connected.
#[test]
fn a_keeper_whose_runtime_has_ended_is_closed() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (guard, test_client) = first.block_on(async {
        let test_client = World::real().test_client(secs(30)).await;
        (test_client.mutex("n").lock().await.unwrap(), test_client)
    });
    drop(first);
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
    runtime().block_on(async {
        let error = test_client.mutex("m").lock().wait(secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(error.to_string().contains("the runtime") && error.remedy().is_some(), "{error}");
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn a_runtime_without_timers_or_sockets_is_refused() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    for runtime in [builder.build().unwrap(), builder.enable_time().build().unwrap()] {
        let error = runtime
            .block_on(async { Keeper::builder(lockkeeper::MemoryStore::new()).connect().await });
        let error = error.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.remedy().unwrap().contains("enable_all"), "{error}");
    }
}
