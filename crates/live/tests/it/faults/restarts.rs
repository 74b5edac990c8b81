//! The server is killed and started again.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::fence::FenceGate;
use lockkeeper::{LostReason, Release};
use lockkeeper_live::Redis;

use super::{LONG, PATIENCE, is_free, keeper, name, renewed, until_waiting, within};

/// Killed and started again with everything it had acknowledged: the lock is still held by its holder, who renews it
/// with the same token; nobody else gets it; who waits keeps waiting and gets it at the release, with a higher token.
#[tokio::test]
async fn a_server_that_kept_its_data_keeps_the_lock_and_the_line() {
    let mut server = Redis::builder().persistent().start().unwrap();
    let name = name();
    let (holder, other) = (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(other.mutex(&*name).unwrap().lock().into_future());
    until_waiting(&holder, &name, 1).await;
    server.restart().unwrap();
    renewed(&guard).await;
    let third = keeper(server.address(), LONG).await;
    assert!(third.mutex(&*name).unwrap().try_lock().await.unwrap().is_none(), "it was given away");
    let token = guard.token();
    assert_eq!(third.inspect(&*name).await.unwrap().holders[0].token, Some(token));
    assert_eq!(guard.release().await.unwrap(), Release::Done);
    let next = within(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    is_free(&third, &name).await;
}

/// Tokens rise over restarts with and without the data, and over one in between that lost everything.
#[tokio::test]
async fn tokens_rise_over_restarts_whatever_was_kept() {
    let mut server = Redis::builder().persistent().start().unwrap();
    let (name, mut last) = (name(), 0);
    for round in 0..6 {
        let keeper = keeper(server.address(), LONG).await;
        let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
        assert!(guard.token().get() > last, "{} after {last}", guard.token());
        last = guard.token().get();
        guard.release().await.unwrap();
        match round % 2 {
            0 => server.restart().unwrap(),
            _ => server.restart_empty().unwrap(),
        }
    }
}

/// K4, a crash without fsync. Killed and started again without its data: the lock is forgotten, so a second holder gets it while the first still
/// believes. Exclusion fails, and this test shows it; the second token is higher, so a fence that has seen it refuses
/// the first holder; and the first hears at its next renewal that it has lost.
#[tokio::test]
async fn k4_a_server_that_forgot_gives_the_lock_away_and_the_fence_refuses_the_older_holder() {
    let mut server = Redis::start().unwrap();
    let name = name();
    let holder = keeper(server.address(), LONG).await;
    let older = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    server.restart().unwrap();
    let other = keeper(server.address(), LONG).await;
    let newer = other.mutex(&*name).unwrap().try_lock().await.unwrap().expect("it is forgotten");
    older.check().expect("two believe in it at the same time: only the fence helps");
    assert!(newer.token() > older.token());
    gate.admit(&newer.sequencer()).unwrap();
    gate.admit(&older.sequencer()).unwrap_err();
    let error = within(PATIENCE, async {
        loop {
            match older.renew_once().await {
                Ok(()) => panic!("a renewal has revived it"),
                Err(error) if error.lost_reason().is_some() => return error,
                Err(_) => {}
            }
        }
    })
    .await;
    assert_eq!(error.lost_reason(), Some(&LostReason::Expired));
    assert_eq!(older.release().await.unwrap(), Release::AlreadyLost);
    renewed(&newer).await;
    newer.release().await.unwrap();
}

/// Who waits when the server forgets everything stands in line again and gets the lock, although nobody releases what
/// was forgotten.
#[tokio::test]
async fn a_waiter_outlasts_a_server_that_forgot() {
    let mut server = Redis::start().unwrap();
    let name = name();
    let (holder, other) = (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(other.mutex(&*name).unwrap().lock().into_future());
    until_waiting(&holder, &name, 1).await;
    server.kill().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart().unwrap();
    let next = within(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    drop(guard);
}
