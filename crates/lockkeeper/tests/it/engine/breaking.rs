//! The time that a mark leaves to its holder, and the events that end it early.

use lockkeeper::layer::Operation;
use lockkeeper::store::{Broken, Renewal};
use lockkeeper::{Acquire, Break, Error, ErrorKind, Guard, LostReason, Target};
use tokio::time::timeout;

use super::spy::{Do, TestClient, World, millis, secs};

fn mark() -> Broken {
    Broken { by: "ops".into(), reason: "stuck".into(), removed: false }
}

/// A lock of 30 s that was marked, and whose holder has the report of the store.
async fn marked(test_client: &TestClient) -> Guard {
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.report_broken(test_client.spy.last(Operation::Claim).ids[0], mark());
    assert!(matches!(guard.lost().await, LostReason::Broken { .. }));
    assert!(timeout(secs(5), guard.given_away()).await.is_err(), "nobody else has it");
    guard
}

/// The store of this test still has the claim: only the report says that the claim was removed.
#[tokio::test(start_paused = true)]
async fn a_holder_learns_of_its_removal_even_after_a_mark() {
    let test_client = World::new().test_client(secs(30)).await;
    let guard = marked(&test_client).await;
    test_client.spy.report_broken(
        test_client.spy.last(Operation::Claim).ids[0],
        Broken { removed: true, ..mark() },
    );
    timeout(millis(1), guard.given_away()).await.expect("it is reported at once");
    assert!(matches!(guard.lost().await, LostReason::Broken { .. }), "the first reason stands");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_misses_a_marked_claim_informs_its_holder() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let guard = marked(&test_client).await;
    test_client.spy.always(Operation::Renew, Do::Answer(vec![Renewal::Lost(None)]));
    timeout(secs(11), guard.given_away()).await.expect("with the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_mark_again_changes_nothing() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let guard = marked(&test_client).await;
    test_client.spy.always(Operation::Renew, Do::Answer(vec![Renewal::Lost(Some(mark()))]));
    assert!(timeout(secs(11), guard.given_away()).await.is_err(), "nobody else has it");
    assert!(!test_client.spy.asked(Operation::Renew).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_marked_claim_stays_with_its_holder_for_its_lease() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let start = world.now();
    let guard = marked(&test_client).await;
    timeout(secs(60), guard.given_away()).await.expect("its lease ends");
    let held = world.now().saturating_since(start);
    assert!(held > secs(29) && held < secs(31), "{held:?}");
}

/// A keeper that is shut down keeps no claim.
#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_away_what_was_marked() {
    let test_client = World::new().test_client(secs(30)).await;
    let guard = marked(&test_client).await;
    test_client.keeper.shutdown(secs(1)).await.unwrap();
    timeout(millis(1), guard.given_away()).await.expect("its session was closed");
}

/// Whether the error says who removed the lock, and why.
fn names_the_breaker(error: &Error) -> bool {
    matches!(error.lost_reason(), Some(LostReason::Removed { reason, .. }) if reason == "stuck")
}

/// Removes this lock. The store reports nothing to its holder.
async fn remove(test_client: &TestClient, guard: &Guard) {
    let (admin, target) = (test_client.keeper.admin().unwrap(), Target::Token(guard.token()));
    assert!(admin.break_lock(guard.name(), target, "stuck", Break::Now).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_nothing_says_who_removed_the_lock() {
    let test_client = World::new().test_client(secs(30)).await;
    let attempts: [fn(Acquire<Guard>) -> Acquire<Guard>; 2] =
        [|lock| lock, |lock| lock.lease(secs(60))];
    for (n, attempt) in attempts.into_iter().enumerate() {
        let guard = attempt(test_client.mutex("n").lock()).await.unwrap();
        remove(&test_client, &guard).await;
        let error = guard.release().await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::Lost && names_the_breaker(&error),
            "attempt {n}: {error}"
        );
        assert_eq!(test_client.count("lost: Removed"), n + 1, "it is reported once");
        assert!(
            error.remedy().is_some() && error.name().is_some_and(|name| name.as_str() == "n"),
            "{error}"
        );
    }
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn where_the_session_lives_too_a_release_says_who_removed_the_lock() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let (guard, other) = (
        test_client.mutex("n").lock().await.unwrap(),
        test_client.mutex("other").lock().await.unwrap(),
    );
    remove(&test_client, &guard).await;
    assert!(names_the_breaker(&guard.release().await.unwrap_err()));
    other.release().await.unwrap();
}

/// A release waits for the reason of a removal for a moment only. A report that comes later counts
/// for the other locks.
#[tokio::test(start_paused = true)]
async fn a_late_report_of_a_removal_counts_for_the_rest_of_the_session() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let (guard, other) = (
        test_client.mutex("n").lock().await.unwrap(),
        test_client.mutex("other").lock().await.unwrap(),
    );
    remove(&test_client, &guard).await;
    remove(&test_client, &other).await;
    test_client.spy.once(Operation::Renew, Do::Late(secs(2)));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    timeout(secs(3), other.lost()).await.expect("the answer says that it is lost too");
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 1);
}

/// The work has ended before any client notices the removal.
#[tokio::test(start_paused = true)]
async fn with_says_why_the_lock_was_lost() {
    let test_client = World::new().test_client(secs(30)).await;
    let ended = test_client.mutex("n").lock().with(async |guard| {
        remove(&test_client, guard).await;
        Ok::<_, Error>(7)
    });
    assert!(names_the_breaker(&ended.await.unwrap_err()));
}

/// No report says who removed the lock, and its lease had not expired.
#[tokio::test(start_paused = true)]
async fn a_lock_that_the_store_has_forgotten_has_not_expired() {
    let test_client = World::new().test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    remove(&test_client, &guard).await;
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    assert_eq!(guard.release().await.unwrap_err().lost_reason(), Some(&LostReason::Forgotten));
}

/// The error of a loss counts before the error of a store that does not answer. The other locks are
/// released all the same.
#[tokio::test(start_paused = true)]
async fn of_several_locks_the_release_names_the_one_that_was_lost() {
    let test_client = World::new().test_client(secs(30)).await;
    let guards = test_client.keeper.multi_lock(["a", "b", "c"]).unwrap().lock().await.unwrap();
    remove(&test_client, &guards.guards()[1]).await;
    let first = guards.guards()[0].name().clone();
    test_client.spy.rule(move |asked| {
        let is_first = asked.operation == Operation::Withdraw && asked.names.contains(&first);
        is_first.then_some(Do::Fail(ErrorKind::Unavailable))
    });
    let error = guards.release().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Lost && names_the_breaker(&error), "{error}");
    assert_eq!(error.name().map(|name| name.as_str()), Some("b"));
    assert!(test_client.mutex("c").try_lock().await.unwrap().is_some());
}
