//! Conveniences for programs: the time of an attempt, one guard for several locks, work under
//! several locks, one limit for all waits.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::{Error, ErrorKind, Keeper, KeeperBuilder, MemoryStore};

const WAIT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn a_guard_knows_how_long_its_attempt_took() {
    let keeper = Keeper::memory();
    let first = keeper.mutex("n").unwrap().lock().await.unwrap();
    let second = tokio::spawn(keeper.mutex("n").unwrap().lock().into_future());
    tokio::time::sleep(WAIT).await;
    while keeper.inspect("n").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(WAIT).await;
    first.release().await.unwrap();
    assert!(second.await.unwrap().unwrap().waited() >= WAIT);
}

#[tokio::test]
async fn a_guard_of_several_is_found_by_the_name_that_was_typed() {
    let keeper = Keeper::builder(MemoryStore::new()).prefix("p/").connect().await.unwrap();
    let guards = keeper.multi_lock(["b", "a"]).unwrap().lock().await.unwrap();
    assert_eq!(guards.get("b").unwrap().token(), guards.guards()[1].token());
    assert!(guards.get("p/b").is_none() && guards.get("c").is_none());
}

#[tokio::test]
async fn work_under_several_locks_and_under_a_leadership_ends_with_their_release() {
    let keeper = Keeper::memory();
    let (both, election) = (keeper.multi_lock(["a", "b"]).unwrap(), keeper.election("e").unwrap());
    let done = both.lock().with(async |guards| guards.check().map(|()| 7)).await;
    assert_eq!(done.unwrap(), 7);
    let term = election.campaign("me").with(async |leadership| {
        leadership.proclaim("ready").await?;
        Ok::<_, Error>(election.leader().await?.map(|leader| leader.value))
    });
    assert_eq!(term.await.unwrap().as_deref(), Some(&b"ready"[..]));
    let own =
        both.lock().with(async |_| Err::<(), _>(Error::new(ErrorKind::Conflict, "mine"))).await;
    assert_eq!(own.unwrap_err().kind(), ErrorKind::Conflict);
    for name in ["a", "b", "e"] {
        assert!(keeper.mutex(name).unwrap().try_lock().await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test]
async fn who_does_not_say_how_long_waits_for_the_keepers_time() {
    let store = MemoryStore::new();
    let keeper = Keeper::builder(store).default_wait(WAIT).connect().await.unwrap();
    let mutex = keeper.mutex("n").unwrap();
    let held = mutex.lock().await.unwrap();
    assert_eq!(mutex.lock().await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(mutex.try_lock().await.unwrap().is_none());
    let patient = tokio::spawn(mutex.lock().wait(Duration::MAX).into_future());
    assert_eq!(mutex.lock().await.unwrap_err().kind(), ErrorKind::Timeout);
    held.release().await.unwrap();
    patient.await.unwrap().unwrap().release().await.unwrap();
    let refused = Keeper::builder(MemoryStore::new())
        .default_wait(Duration::ZERO)
        .connect()
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(KeeperBuilder::DEFAULT_TTL, Duration::from_secs(30));
}
