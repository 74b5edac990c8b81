//! Attempts that wait beside the line.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, LostUpdateCounter, Ttls};
use lockkeeper::{ErrorKind, LostReason};

/// An unfair attempt waits until the lock is free, and is not in line meanwhile.
pub async fn it_waits_for_the_lock_without_a_place_in_line(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let free = b.mutex(&name).unwrap().lock().unfair().await.unwrap();
    free.release().await.unwrap();
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(b.mutex(&name).unwrap().lock().unfair().into_future());
    for _ in 0..20 {
        case.pass(Duration::from_millis(10)).await;
        assert_eq!(a.inspect(&name).await.unwrap().waiters.len(), 0);
    }
    assert!(!waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    let unfair = waiting.await.unwrap().unwrap();
    assert!(unfair.token() > token);
    unfair.release().await.unwrap();
    case.is_free(&name).await;
}

/// A later claim that waits in line gets the lock before an unfair attempt.
pub async fn an_unfair_claim_never_overtakes_a_waiter(case: &Case) {
    let (name, holder) = (case.name("m"), case.keeper().await);
    let (beside, in_line) =
        (case.test_client(Ttls::long()).await, case.test_client(Ttls::long()).await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let unfair: Vec<_> =
        (0..3).map(|_| tokio::spawn(beside.mutex(&name).lock().unfair().into_future())).collect();
    case.pass(Duration::from_millis(50)).await;
    let fair = tokio::spawn(in_line.mutex(&name).lock().into_future());
    case.until_waiting(&holder, &name, 1).await;
    guard.release().await.unwrap();
    let fair = fair.await.unwrap().unwrap();
    case.pass(Duration::from_millis(50)).await;
    assert!(unfair.iter().all(|attempt| !attempt.is_finished()));
    let mut last = fair.token();
    fair.release().await.unwrap();
    // The order among the unfair attempts is not promised.
    let (tokens, mut seen) = tokio::sync::mpsc::unbounded_channel();
    for attempt in unfair {
        let tokens = tokens.clone();
        tokio::spawn(async move {
            let guard = attempt.await.unwrap().unwrap();
            tokens.send(guard.token()).unwrap();
            guard.release().await.unwrap();
        });
    }
    for _ in 0..3 {
        let token = seen.recv().await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    case.is_free(&name).await;
}

/// A release wakes an unfair attempt. The attempt does not wait for its next look.
pub async fn a_release_wakes_it(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let guard = a.mutex(&name).unwrap().lock().await.unwrap();
        let waiting = tokio::spawn(b.mutex(&name).unwrap().lock().unfair().into_future());
        case.pass(Duration::from_millis(100)).await;
        guard.release().await.unwrap();
        let released = case.now();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        fastest = fastest.min(case.since(released));
    }
    // Without a wake-up the attempt would look after eight to ten seconds.
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
}

/// An unfair attempt waits until its limit is over, and no longer.
pub async fn its_wait_ends_with_its_time(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let wait = Duration::from_millis(300);
    let start = case.now();
    let error = b.mutex(&name).unwrap().lock().unfair().wait(wait).await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Timeout, Some(&name)));
    assert!(case.since(start) >= wait);
    assert!(b.mutex(&name).unwrap().try_lock().unfair().wait(wait).await.unwrap().is_none());
    let tried = b.mutex(&name).unwrap().lock().unfair().wait(Duration::ZERO).await.unwrap_err();
    assert_eq!(tried.kind(), ErrorKind::Timeout);
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// Unfair attempts and the claims in line exclude each other.
pub async fn many_of_them_lose_no_increment(case: &Case) {
    let (name, counter) = (case.name("m"), LostUpdateCounter::default());
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let keeper = case.keeper().await;
        for unfair in [true, true, false] {
            let (mutex, counter) = (keeper.mutex(&name).unwrap(), counter.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..5 {
                    let attempt = if unfair { mutex.lock().unfair() } else { mutex.lock() };
                    let guard = attempt.await.unwrap();
                    counter.add(&guard).await;
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.total(), 30);
    case.is_free(&name).await;
}

/// An unfair attempt with a fixed lease has the whole lease after a long wait, and no more.
pub async fn it_keeps_to_its_lease(case: &Case) {
    let (name, a) = (case.name("m"), case.keeper().await);
    let test_client = case.test_client(Ttls::long()).await;
    // Half of the lease is longer than a slow machine takes to look.
    let lease = case.short().ttl.max(Duration::from_secs(4));
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex(&name).lock().unfair().lease(lease).into_future());
    case.pass(lease * 2).await;
    guard.release().await.unwrap();
    let leased = waiting.await.unwrap().unwrap();
    assert!(leased.remaining() > lease / 2, "{:?}", leased.remaining());
    assert_eq!(leased.lost().await, LostReason::Expired);
    drop(leased);
    case.is_free(&name).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}
