//! Detached and adopted locks.

use lockkeeper::layer::Operation;
use lockkeeper::store::{Capabilities, Expiry};
use lockkeeper::{ErrorKind, SessionState};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn where_locks_end_with_their_connection_none_is_detached() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(30), 0).await;
    let error = test_client.mutex("n").lock().detached(secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("none can be detached"), "{error}");
    assert!(test_client.spy.asked(Operation::Claim).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_the_store_cannot_keep_is_refused() {
    let test_client = World::new().test_client(secs(30)).await;
    for lease in [millis(1), secs(400 * 24 * 3600)] {
        let error = test_client.mutex("n").lock().detached(lease).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// The session stays open even when the keeper is idle for longer than a session may be.
#[tokio::test(start_paused = true)]
async fn its_session_is_never_closed_by_who_gave_it_away() {
    let world = World::new();
    let test_client = world.test_client(secs(2)).await;
    let handle = test_client.mutex("n").lock().detached(secs(3)).await.unwrap();
    sleep(secs(60)).await;
    drop(test_client.keeper.adopt(handle).unwrap());
    let spy = test_client.spy.clone();
    drop(test_client);
    sleep(secs(60)).await;
    assert!(spy.asked(Operation::Close).is_empty());
    assert!(spy.asked(Operation::Withdraw).is_empty());
}

/// A renewal whose answer was lost may have happened, and proves nothing.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_proves_nothing() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let handle = test_client.mutex("n").lock().detached(secs(60)).await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    test_client.spy.once(Operation::Renew, Do::LoseReply);
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(guard.check().is_err());
    guard.renew_once().await.unwrap();
    guard.check().unwrap();
}

/// The deadline counts from before the renewal was sent.
#[tokio::test(start_paused = true)]
async fn a_slow_renewal_gives_less_time() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let handle = test_client.mutex("n").lock().detached(secs(60)).await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    test_client.spy.once(Operation::Renew, Do::Late(secs(10)));
    guard.renew_once().await.unwrap();
    assert!(
        guard.remaining() < secs(50) && guard.remaining() > secs(48),
        "{:?}",
        guard.remaining()
    );
}

/// With a lock-delay the keeper withdraws nothing after a loss. The keeper forgets the session all
/// the same, and the session's jeopardy too.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_what_was_adopted_and_lost() {
    let test_client = World::new().test_client_with(|b| b.ttl(secs(30)).lock_delay(secs(5))).await;
    let handle = test_client.mutex("n").lock().detached(secs(9)).await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    guard.renew_once().await.unwrap();
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.renew_once().await.unwrap_err();
    assert_eq!(test_client.keeper.session().state(), SessionState::Jeopardy);
    sleep(secs(10)).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!((test_client.keeper.leftovers(), test_client.count("lost")), (0, 1));
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_lock_in_its_delay_is_reported_lost_once_and_forgotten() {
    let test_client = World::new().test_client_with(|b| b.ttl(secs(30)).lock_delay(secs(20))).await;
    let handle = test_client.mutex("n").lock().detached(secs(9)).await.unwrap();
    sleep(secs(15)).await;
    let guard = test_client.keeper.adopt(handle).unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    // A later loss makes the engine look at all its locks.
    let other = test_client.mutex("other").lock().max_hold(secs(1)).await.unwrap();
    other.lost().await;
    assert_eq!(test_client.count("lost: Expired"), 1);
    drop(other);
    sleep(secs(60)).await;
    assert_eq!((test_client.keeper.leftovers(), test_client.count("lost: Expired")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_adopted_session_is_forgotten_when_its_release_is_given_up() {
    let test_client = World::new().test_client(secs(30)).await;
    let handle = test_client.mutex("n").lock().detached(secs(60)).await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    guard.renew_once().await.unwrap();
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    sleep(secs(300)).await;
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_adopted_session_does_not_affect_the_keepers_own() {
    let mut can = Capabilities::full();
    can.expiry = Expiry::Session { proof_lag: 0 };
    let test_client = World::new().test_client_on(can, None, |b| b.ttl(secs(30))).await;
    let handle = test_client.mutex("n").lock().detached(secs(60)).await.unwrap();
    let own = test_client.mutex("own").lock().await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::SessionLost));
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
    own.check().unwrap();
}
