//! What is given away, and what was adopted.

use lockkeeper::ErrorKind;
use lockkeeper::layer::Operation;
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn where_locks_end_with_their_connection_none_is_detached() {
    let world = World::new();
    let party = world.party_by_session(secs(30), 0).await;
    let error = party.mutex("n").lock().detached(secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("none can be detached"), "{error}");
    assert!(party.spy.asked(Operation::Claim).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_life_that_the_store_cannot_keep_is_refused() {
    let party = World::new().party(secs(30)).await;
    for life in [millis(1), secs(400 * 24 * 3600)] {
        let error = party.mutex("n").lock().detached(life).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// Not even when it is idle for longer than its session may be.
#[tokio::test(start_paused = true)]
async fn its_session_is_never_closed_by_who_gave_it_away() {
    let world = World::new();
    let party = world.party(secs(2)).await;
    let handle = party.mutex("n").lock().detached(secs(3)).await.unwrap();
    sleep(secs(60)).await;
    drop(party.keeper.adopt(handle).unwrap());
    let spy = party.spy.clone();
    drop(party);
    sleep(secs(60)).await;
    assert!(spy.asked(Operation::Close).is_empty());
    assert!(spy.asked(Operation::Withdraw).is_empty());
}

/// A renewal whose answer was lost may have happened, and proves nothing.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_proves_nothing() {
    let world = World::new();
    let party = world.party(secs(30)).await;
    let handle = party.mutex("n").lock().detached(secs(60)).await.unwrap();
    let guard = party.keeper.adopt(handle).unwrap();
    party.spy.once(Operation::Renew, Do::LoseReply);
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(guard.check().is_err());
    guard.renew_once().await.unwrap();
    guard.check().unwrap();
}

/// The deadline counts from before the renewal was sent.
#[tokio::test(start_paused = true)]
async fn a_slow_renewal_gives_less_time() {
    let world = World::new();
    let party = world.party(secs(30)).await;
    let handle = party.mutex("n").lock().detached(secs(60)).await.unwrap();
    let guard = party.keeper.adopt(handle).unwrap();
    party.spy.once(Operation::Renew, Do::Late(secs(10)));
    guard.renew_once().await.unwrap();
    assert!(guard.remaining() < secs(50) && guard.remaining() > secs(48), "{:?}", guard.remaining());
}
