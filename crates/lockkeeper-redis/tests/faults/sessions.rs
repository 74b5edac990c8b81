//! What the server remembers of detached sessions.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper::store::{Live, LiveState, SessionId, SessionSpec, Store as _};
use lockkeeper::{Effect, ErrorKind, RedisStore};
use lockkeeper_live::Redis;

use crate::support::{Claimant, LONG, store};

/// A session that outlives its process.
pub(super) fn detached() -> SessionSpec {
    SessionSpec { detached: true, ..SessionSpec::new(LONG, Duration::ZERO) }
}

/// The key of a closed session, by which the server remembers that it was closed.
async fn key_of(server: &Redis, store: &RedisStore, session: &SessionId) -> String {
    store.close(session, &[]).await.unwrap();
    let mut keys: Vec<String> = server.query(&["KEYS", "lk:s:*"]).unwrap();
    server.run(&["DEL", &keys[0]]).unwrap();
    assert_eq!(keys.len(), 1);
    keys.remove(0)
}

/// Something else has the place of a session, of whatever type: the session is not opened, its end
/// succeeds, and both leave the value as it is.
#[tokio::test]
async fn what_others_have_put_in_the_place_of_a_session_is_left_alone() {
    let server = Redis::start().unwrap();
    for words in
        [&["SET", "KEY", "x"][..], &["HSET", "KEY", "closed", "x"], &["RPUSH", "KEY", "closed"]]
    {
        let [one, other] = [store(server.address()).await, store(server.address()).await];
        let session = SessionId::random();
        let key = key_of(&server, &one, &session).await;
        let words: Vec<_> =
            words.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
        server.run(&words).unwrap();
        let there = || {
            (
                server.query::<Vec<u8>>(&["DUMP", &key]).unwrap(),
                server.query::<i64>(&["PTTL", &key]).unwrap(),
            )
        };
        let before = there();
        let error = other.open(&session, &detached()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{words:?}: {error}");
        other.close(&session, &[]).await.unwrap();
        assert_eq!(there(), before, "{words:?}");
        server.run(&["DEL", &key]).unwrap();
    }
}

/// A client sends a close with a list of claims, and then an opening, without waiting for an
/// answer: the server does both in this order.
#[tokio::test]
async fn a_session_is_closed_before_an_opening_that_is_sent_later() {
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    // The server has every script before a request is to be the next one.
    key_of(&server, &store, &SessionId::random()).await;
    let claimants =
        [Claimant::new(&store, "one", LONG).await, Claimant::new(&store, "other", LONG).await];
    for claimant in &claimants {
        claimant.granted().await;
    }
    claimants[0].release().await;
    let live = [Live { key: claimants[1].claim.key.clone(), state: LiveState::Granted }];
    let session = SessionId::random();
    store.open(&session, &detached()).await.unwrap();
    let mut closing = pin!(store.close(&session, &live));
    assert!(matches!(
        closing.as_mut().poll(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    ));
    let error = store.open(&session, &detached()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    closing.await.unwrap();
    claimants[1].sees(&[]).await;
}

/// A session is remembered from its last close on.
#[tokio::test]
async fn a_session_that_is_closed_again_is_remembered_for_a_whole_minute_again() {
    let server = Redis::start().unwrap();
    let [one, other] = [store(server.address()).await, store(server.address()).await];
    let session = SessionId::random();
    one.close(&session, &[]).await.unwrap();
    let keys: Vec<String> = server.query(&["KEYS", "lk:s:*"]).unwrap();
    server.run(&["PEXPIRE", &keys[0], "20000"]).unwrap();
    other.close(&session, &[]).await.unwrap();
    assert!(server.query::<u64>(&["PTTL", &keys[0]]).unwrap() > 50_000);
    assert_eq!(other.open(&session, &detached()).await.unwrap_err().kind(), ErrorKind::SessionLost);
}

/// The server refuses a claim, since another program has the key of the lock. That changes nothing,
/// so the close of the session has nothing to withdraw there, and succeeds.
#[tokio::test]
async fn a_claim_that_was_refused_without_effect_does_not_fail_the_close() {
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    server.run(&["SET", "lk:{foreign}", "not a lock"]).unwrap();
    let claimant = Claimant::new(&store, "foreign", LONG).await;
    let error = claimant.send().await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::None), "{error}");
    store.close(&claimant.claim.key.session, &[]).await.unwrap();
}

/// The same for the end of a keeper: it held nothing, so nothing is left to be released.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_keeper_that_was_refused_a_lock_shuts_down_at_once() {
    let server = Redis::start().unwrap();
    server.run(&["SET", "lk:{foreign}", "not a lock"]).unwrap();
    let keeper = crate::support::keeper(server.address(), LONG).await;
    let error = keeper.mutex("foreign").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let began = std::time::Instant::now();
    let ended = keeper.shutdown(Duration::from_secs(5)).await;
    assert!(ended.is_ok(), "after {:?}: {}", began.elapsed(), ended.unwrap_err());
}
