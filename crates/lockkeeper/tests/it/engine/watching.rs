//! Watching a lock.

use std::future::IntoFuture;

use lockkeeper::ErrorKind;
use lockkeeper::layer::Operation;
use lockkeeper::store::{Asked, Evict, Evicted, Store as _, Target};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_watch_sees_holders_and_waiters_as_soon_as_they_change() {
    let world = World::new();
    let (one, two) = (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let mut watch = world.test_client(secs(30)).await.keeper.watch("n").unwrap();
    assert!(!watch.changed().await.unwrap().is_held());
    let start = world.now();
    let guard = one.mutex("n").lock().await.unwrap();
    let held = watch.changed().await.unwrap();
    assert_eq!(held.holders[0].token, Some(guard.token()));
    let waiting = tokio::spawn(two.mutex("n").lock().into_future());
    assert_eq!(watch.changed().await.unwrap().waiters.len(), 1);
    guard.release().await.unwrap();
    let next = watch.changed().await.unwrap();
    assert!(next.holders[0].token > held.holders[0].token && next.waiters.is_empty());
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(!watch.changed().await.unwrap().is_held());
    // The change was pushed and not polled: no virtual time has passed.
    assert_eq!(world.now(), start);
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_the_end_of_a_claim_that_nobody_ends() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let mut watch = world.test_client(secs(30)).await.keeper.watch("n").unwrap();
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
    assert!(watch.changed().await.unwrap().is_held());
    assert!(!watch.changed().await.unwrap().is_held());
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_says_nothing_of_what_changes_nobody() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let mut watch = test_client.keeper.watch("n").unwrap();
    let guard = test_client.mutex("n").lock().await.unwrap();
    let held = watch.changed().await.unwrap();
    // Renewals happen meanwhile, and the mark is on a claim that the watch has already shown.
    assert!(tokio::time::timeout(secs(10), watch.changed()).await.is_err());
    let (admin, target) = (world.store.admin().unwrap(), Target::Id(held.holders[0].id));
    let evicted = admin.evict(guard.name(), &target, Evict::Mark, "ops", "a test").await.unwrap();
    assert_eq!(evicted, Evicted::Done);
    assert!(!watch.changed().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn an_observer_learns_of_no_leader_before_the_one_that_it_knows() {
    let world = World::new();
    let (test_client, candidates) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let election = candidates.keeper.election("n").unwrap();
    let mut observer = test_client.keeper.election("n").unwrap().observe();
    let first = election.campaign("one").await.unwrap();
    let as_it_was = world.store.line(&"n".parse().unwrap()).await.unwrap();
    first.resign().await.unwrap();
    let _second = election.campaign("two").await.unwrap();
    assert_eq!(observer.next().await.unwrap().unwrap().value, b"two");
    test_client.spy.shows_once(as_it_was);
    assert!(
        tokio::time::timeout(secs(60), observer.next()).await.is_err(),
        "who leads is the same"
    );
    assert!(test_client.spy.has_shown());
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_after_an_outage() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let mut watch = test_client.keeper.watch("n").unwrap();
    assert!(!watch.changed().await.unwrap().is_held());
    test_client.spy.once(Operation::Wait, Do::Fail(ErrorKind::Unavailable));
    let error = watch.changed().await.unwrap_err();
    assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Unavailable, "n"));
    let _guard = test_client.mutex("n").lock().await.unwrap();
    assert!(watch.changed().await.unwrap().is_held());
}

/// An answer that was under way while the store reported a later request knows only the earlier
/// request.
#[tokio::test(start_paused = true)]
async fn a_request_is_reported_once_even_after_a_late_older_answer() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let id = test_client.spy.last(Operation::Claim).ids[0];
    let admin = world.store.admin().unwrap();
    for (by, late) in [("x", false), ("y", true)] {
        let renewals = test_client.spy.asked(Operation::Renew).len();
        if late {
            test_client.spy.once(Operation::Renew, Do::Late(secs(1)));
            while test_client.spy.asked(Operation::Renew).len() == renewals {
                sleep(millis(100)).await;
            }
        }
        assert!(admin.request_release(guard.name(), by, "a test").await.unwrap());
        test_client.spy.report_asked(id, &Asked { by: by.into(), reason: "a test".into() });
    }
    sleep(secs(60)).await;
    assert_eq!(test_client.count("ReleaseRequested"), 2);
}
