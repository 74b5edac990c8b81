//! The renewals and the events after a store has reported a new connection.

use std::cell::Cell;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper::layer::Operation;
use lockkeeper::store::{Evict, Store, Target};
use lockkeeper::{ErrorKind, Guard, LostReason, SessionState};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

/// Makes the server forget this lock without a report.
async fn forget(world: &World, guard: &Guard) {
    let target = Target::Token(guard.token().raw());
    let admin = world.store.admin().unwrap();
    admin.evict(guard.name(), &target, Evict::Now, "nobody", "a restart").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_forgot_is_lost_within_a_second_of_the_reconnection() {
    let world = World::new();
    for by_session in [false, true] {
        let test_client = if by_session {
            world.test_client_by_session(secs(30), 0).await
        } else {
            world.test_client(secs(30)).await
        };
        let [kept, forgotten] = ["kept", "forgotten"].map(|name| test_client.mutex(name));
        let (kept, forgotten) = (kept.lock().await.unwrap(), forgotten.lock().await.unwrap());
        forget(&world, &forgotten).await;
        sleep(millis(500)).await;
        forgotten.check().unwrap();
        let start = world.now();
        test_client.spy.reconnect();
        forgotten.lost().await;
        let took = world.now().saturating_since(start);
        assert!(took <= millis(200), "by session {by_session}: {took:?}");
        kept.check().unwrap();
        assert!(kept.remaining() > secs(29));
        kept.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_in_jeopardy_until_its_holds_are_acknowledged_after_a_reconnection() {
    let world = World::new();
    for by_session in [false, true] {
        let test_client = if by_session {
            world.test_client_by_session(secs(30), 0).await
        } else {
            world.test_client(secs(30)).await
        };
        let guard = test_client.mutex("n").lock().await.unwrap();
        let mut session = test_client.keeper.session();
        test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
        test_client.spy.once(Operation::Renew, Do::Answer(Vec::new()));
        let start = world.now();
        test_client.spy.reconnect();
        assert_eq!(session.changed().await, SessionState::Jeopardy);
        assert_eq!(world.now(), start);
        assert_eq!(session.changed().await, SessionState::Valid);
        assert_eq!(
            test_client.spy.asked(Operation::Renew).len(),
            3,
            "the third renewal was answered"
        );
        assert_eq!((test_client.count("jeopardy"), test_client.count("recovered")), (1, 1));
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_sent_before_the_reconnection_ends_no_doubt() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let mut session = test_client.keeper.session();
    test_client.spy.once(Operation::Renew, Do::Late(millis(300)));
    while test_client.spy.asked(Operation::Renew).is_empty() {
        sleep(millis(10)).await;
    }
    // The server processes the renewal, forgets the lock, and then the answer arrives.
    test_client.spy.reconnect();
    sleep(millis(20)).await;
    forget(&world, &guard).await;
    let start = world.now();
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    guard.lost().await;
    assert!(
        world.now().saturating_since(start) < secs(1),
        "{:?}",
        world.now().saturating_since(start)
    );
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 2);
}

/// It was sent on the connection before, and its failure is known only when the next connection
/// stands.
#[tokio::test(start_paused = true)]
async fn the_failure_of_an_older_renewal_puts_off_no_renewal_after_a_reconnection() {
    for _ in 0..5 {
        let world = World::new();
        let test_client = world.test_client(secs(9)).await;
        let guard = test_client.mutex("n").lock().await.unwrap();
        test_client.spy.once(Operation::Renew, Do::FailAfter(millis(2001), ErrorKind::Unavailable));
        while test_client.spy.asked(Operation::Renew).is_empty() {
            sleep(millis(1)).await;
        }
        let failed = test_client.spy.last(Operation::Renew).at;
        sleep(millis(2000).saturating_sub(world.now().saturating_since(failed))).await;
        let (start, before) = (world.now(), test_client.spy.asked(Operation::Renew).len());
        assert_eq!(before, 2, "the watchdog did not wait for the answer, and has another one");
        test_client.spy.reconnect();
        while test_client.spy.asked(Operation::Renew).len() == before {
            sleep(millis(1)).await;
        }
        assert_eq!(test_client.count("RenewalFailed"), 2, "late, and then failed");
        let took = test_client.spy.last(Operation::Renew).at.saturating_since(start);
        assert!(took <= millis(101), "{took:?}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn any_number_of_reconnections_makes_four_rounds_a_second_at_most() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    for _ in 0..200 {
        (0..50).for_each(|_| test_client.spy.reconnect());
        sleep(millis(10)).await;
    }
    let asked = test_client.spy.asked(Operation::Renew).len();
    assert!((7..=9).contains(&asked), "{asked} renewals in two seconds");
    sleep(secs(1)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_may_say_it_from_any_thread() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let spy = Arc::clone(&test_client.spy);
    std::thread::spawn(move || (0..1000).for_each(|_| spy.reconnect())).join().unwrap();
    sleep(millis(500)).await;
    assert!(!test_client.spy.asked(Operation::Renew).is_empty());
    guard.check().unwrap();
}

thread_local! {
    /// The store of this thread reports a reconnection, and may have locked something.
    static IS_REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// The end of a keeper asks the store for something.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_ends_during_a_report_of_a_reconnection_does_not_end_inside_of_it() {
    let world = World::new();
    let inside = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let test_client = world.test_client(secs(30)).await;
        test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
        let found = Arc::clone(&inside);
        test_client.spy.rule(move |asked| {
            let is_inside = asked.operation == Operation::Close && IS_REPORTING.get();
            found.fetch_add(usize::from(is_inside), Ordering::Relaxed);
            None
        });
        let (spy, (begins, begun)) = (Arc::clone(&test_client.spy), std::sync::mpsc::channel());
        let reporting = std::thread::spawn(move || {
            IS_REPORTING.set(true);
            while spy.is_listened_to() {
                let _ = begins.send(());
            }
        });
        begun.recv().unwrap();
        drop(test_client);
        reporting.join().unwrap();
    }
    assert_eq!(inside.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn waiters_and_fixed_leases_are_not_renewed_by_a_reconnection() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let leased = test_client.mutex("leased").lock().lease(secs(20)).await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(500)).await;
    test_client.spy.reconnect();
    sleep(millis(500)).await;
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 0);
    assert_eq!(
        test_client.keeper.session().state(),
        SessionState::Valid,
        "it holds nothing that is renewed"
    );
    leased.release().await.unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_released_in_doubt_ends_the_jeopardy() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let mut session = test_client.keeper.session();
    test_client.spy.reconnect();
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    guard.release().await.unwrap();
    let start = world.now();
    assert_eq!(session.changed().await, SessionState::Valid);
    assert!(world.now().saturating_since(start) <= millis(250));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_locks_are_acknowledged_within_a_second_of_the_reconnection() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let mut guards = Vec::new();
    for i in 0..10_000 {
        guards.push(test_client.mutex(&format!("n/{i}")).lock().await.unwrap());
    }
    let mut session = test_client.keeper.session();
    let start = world.now();
    test_client.spy.reconnect();
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    assert_eq!(session.changed().await, SessionState::Valid);
    assert!(world.now().saturating_since(start) < secs(1));
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 100, "a hundred in each");
    assert!(guards.iter().all(|guard| guard.remaining() > secs(29)));
}

#[tokio::test(start_paused = true)]
async fn a_reconnection_after_the_end_of_the_keeper_is_reported_to_nobody() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let spy = Arc::clone(&test_client.spy);
    drop(test_client);
    sleep(secs(1)).await;
    assert!(!spy.is_listened_to());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_store_forgot_is_lost_with_one_word() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    world.forget("n", test_client.spy.last(Operation::Claim).ids[0]).await;
    test_client.spy.reconnect();
    assert_eq!(guard.lost().await, LostReason::Forgotten);
    sleep(secs(1)).await;
    assert_eq!(test_client.count("lost"), 1);
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
}
