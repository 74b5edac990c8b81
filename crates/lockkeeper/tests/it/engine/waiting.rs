//! Attempts: their ids, their behaviour when the store fails, and the attempts that inherit their
//! place.

use std::future::IntoFuture;

use lockkeeper::ErrorKind;
use lockkeeper::layer::Operation;
use lockkeeper::store::{Capabilities, Revision, Verdict};
use tokio::time::{sleep, timeout};

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_claim_of_unknown_outcome_is_resent_and_withdrawn_with_a_tombstone() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::LoseReply);
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.iter().map(|asked| asked.resend).collect::<Vec<_>>(), [false, true]);
    assert_eq!(claims[0].ids, claims[1].ids);
    assert_eq!(test_client.spy.last(Operation::Withdraw).tombstone, Some(secs(60)));
    // A claim whose outcome was always known needs no tombstone.
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    assert_eq!(test_client.spy.last(Operation::Withdraw).tombstone, None);
}

#[tokio::test(start_paused = true)]
async fn an_unprocessed_claim_is_sent_again_as_a_new_one() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Fail(ErrorKind::Unavailable));
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.iter().map(|asked| asked.resend).collect::<Vec<_>>(), [false, false]);
    assert_eq!(claims[0].ids, claims[1].ids);
    assert_eq!(test_client.spy.last(Operation::Withdraw).tombstone, None);
}

#[tokio::test(start_paused = true)]
async fn a_store_silent_for_longer_than_a_claims_ttl_gets_no_further_tries() {
    let world = World::new();
    // The pauses between the tries are longer than the ttl, so each try uses up an id.
    let test_client = world.test_client(millis(150)).await;
    test_client.spy.always(Operation::Claim, Do::Fail(ErrorKind::Unavailable));
    let error = test_client.mutex("n").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_retired_id_is_withdrawn_and_never_used_again() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Say(Verdict::Gone));
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].ids, claims[1].ids);
    assert_eq!(test_client.spy.asked(Operation::Withdraw)[0].ids, claims[0].ids);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_died_comes_back_under_another_id() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(100)).await;
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(6)).await;
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].ids, claims[1].ids);
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_spends_every_id_is_an_error() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Claim, Do::Say(Verdict::Gone));
    assert_eq!(test_client.mutex("n").lock().await.unwrap_err().kind(), ErrorKind::Internal);
    assert!(test_client.spy.asked(Operation::Claim).len() <= 10);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slower_than_a_claim_lives_is_unavailable() {
    let world = World::new();
    let test_client = world.test_client(secs(2)).await;
    test_client.spy.always(Operation::Claim, Do::Late(secs(5)));
    let error = test_client.mutex("n").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("a longer ttl"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_retires_every_id_of_a_waiter_is_asked_with_pauses() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let queued = Verdict::Queued { ahead: 1, seen: Revision(1), look_again: millis(10) };
    test_client.spy.once(Operation::Claim, Do::Say(queued));
    let mut claims = 0;
    test_client.spy.rule(move |asked| {
        claims += usize::from(asked.operation == Operation::Claim);
        assert!(claims < 1000, "it is asked without a pause");
        (asked.operation == Operation::Claim).then_some(Do::Say(Verdict::Gone))
    });
    let error = test_client.mutex("n").lock().wait(secs(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(test_client.spy.asked(Operation::Claim).len() < 100);
}

#[tokio::test(start_paused = true)]
async fn tasks_behind_another_also_learn_that_the_store_is_down() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.always(Operation::Claim, Do::Fail(ErrorKind::Unavailable));
    let tasks = [0; 3].map(|_| tokio::spawn(test_client.mutex("n").lock().into_future()));
    for task in tasks {
        let error = timeout(secs(60), task).await.expect("it waits for ever").unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_outlasts_an_outage() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(100)).await;
    for operation in [Operation::Claim, Operation::Renew, Operation::Open] {
        test_client.spy.always(operation, Do::Fail(ErrorKind::Unavailable));
    }
    sleep(secs(40)).await;
    assert!(!waiting.is_finished());
    test_client.spy.no_rules();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_between_two_tries_leaves_its_place_to_the_next() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    // A waiter looks repeatedly, and cannot reach the store.
    test_client.spy.always(Operation::Wait, Do::Fail(ErrorKind::Unavailable));
    let first = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(10)).await;
    let heir = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(10)).await;
    let line = world.line("n").await;
    test_client.spy.always(Operation::Claim, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(1)).await;
    first.abort();
    sleep(millis(1)).await;
    test_client.spy.no_rules();
    sleep(secs(2)).await;
    assert_eq!(world.line("n").await, line, "the place was given up");
    guard.release().await.unwrap();
    heir.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(world.line("n").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_two_attempts_leave_is_withdrawn_by_the_last() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let _guard = holder.mutex("n").lock().await.unwrap();
    let tasks = [0; 2].map(|_| tokio::spawn(test_client.mutex("n").lock().into_future()));
    sleep(millis(100)).await;
    assert_eq!(
        (world.line("n").await.len(), test_client.keeper.leftovers()),
        (2, 2),
        "a claim, and the queue for it"
    );
    // The heir gives up before it looks at the inherited place.
    for task in &tasks {
        task.abort();
    }
    sleep(millis(100)).await;
    assert_eq!(world.line("n").await.len(), 1);
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_attempt_was_dropped_is_withdrawn() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(1)));
    let attempt = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(500)).await;
    attempt.abort();
    sleep(secs(1)).await;
    assert_eq!(
        test_client.spy.last(Operation::Withdraw).ids,
        test_client.spy.last(Operation::Claim).ids
    );
    assert_eq!((world.line("n").await.len(), test_client.keeper.leftovers()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_to_answer_gets_three_seconds() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(2)));
    let guard = test_client.mutex("n").lock().wait(millis(100)).await.unwrap();
    guard.release().await.unwrap();
    test_client.spy.once(Operation::Claim, Do::Late(secs(5)));
    let error = test_client.mutex("n").lock().wait(millis(100)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Unavailable,
        "busy is never unavailable, nor the other way round"
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_is_no_longer_than_the_store_bears() {
    let world = World::new();
    let mut can = Capabilities::full();
    can.max_waiters = 1;
    let holder = world.test_client_on(can.clone(), None, |builder| builder).await;
    let _held = holder.mutex("n").lock().await.unwrap();
    let first = world.test_client_on(can.clone(), None, |builder| builder).await;
    let _waiting = tokio::spawn(first.mutex("n").lock().into_future());
    sleep(millis(10)).await;
    let second = world.test_client_on(can, None, |builder| builder.max_waiters(100)).await;
    let error = second.mutex("n").lock().wait(secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
    assert!(error.to_string().contains("the queue is full (max-waiters is 1)"), "{error}");
}

/// The store never reports the grant itself.
#[tokio::test(start_paused = true)]
async fn a_grant_that_only_a_renewal_has_found_ends_the_wait() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Wait, Do::Hang);
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    while world.line("n").await.len() < 2 {
        sleep(millis(1)).await;
    }
    held.release().await.unwrap();
    let guard = timeout(secs(60), waiting).await.expect("it hears of the grant").unwrap().unwrap();
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), 1, "it has not claimed again");
    guard.release().await.unwrap();
}
