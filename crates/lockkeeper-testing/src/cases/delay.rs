//! The lock-delay: it runs after a crash, a panic and a late release. A release in time ends it.

use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::Case;
use crate::TestClient;
use lockkeeper::time::Instant;
use lockkeeper::{ErrorKind, Guard, LockName};

/// A release in time frees the lock at once.
pub async fn a_release_in_time_is_immediate(case: &Case) {
    let (test_client, name, guard) = held(case).await;
    let other = case.keeper().await;
    guard.release().await.unwrap();
    assert!(other.mutex(&name).unwrap().try_lock().await.unwrap().is_some());
    drop(test_client);
}

/// A drop in time frees the lock at once.
pub async fn a_drop_in_time_is_immediate(case: &Case) {
    let (test_client, name, guard) = held(case).await;
    drop(guard);
    case.until("the lock is free", async || {
        !test_client.keeper.inspect(&name).await.unwrap().is_held()
    })
    .await;
    case.is_free(&name).await;
}

/// After a panic the state of the holder's work is unknown, so the lease and the delay run out.
pub async fn a_panic_lets_the_delay_run_out(case: &Case) {
    let (test_client, name, guard) = held(case).await;
    let believed = case.now() + guard.remaining();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("the holder panics"));
    }));
    assert!(panicked.is_err());
    is_taken_only_after(case, &name, believed).await;
    drop(test_client);
}

/// A release after the lease has expired comes too late to end the delay.
pub async fn a_late_release_lets_the_delay_run_out(case: &Case) {
    let (test_client, name, guard) = held(case).await;
    test_client.cut_off(true);
    let _ = guard.lost().await;
    let believed = case.now();
    test_client.cut_off(false);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    is_taken_only_after(case, &name, believed).await;
}

/// After a kill of the process the delay runs out too.
pub async fn a_crash_lets_the_delay_run_out(case: &Case) {
    let ttls = case.harness().short();
    let name = case.name("m");
    let client = case.client(ttls).await;
    client.mutex(&name).granted().await;
    // A killed process stops to act at an unknown time, so the delay counts from now at the
    // earliest.
    let killed = case.now();
    let store = std::sync::Arc::clone(&client.store);
    drop(client);
    case.harness().crash(store).await;
    is_taken_only_after(case, &name, killed).await;
}

/// A client uses a pushed grant only after the store has acknowledged its delay too.
pub async fn a_pushed_grant_has_its_delay(case: &Case) {
    let ttls = case.harness().short();
    let name = case.name("m");
    let (first, second) = (case.test_client(ttls).await, case.test_client(ttls).await);
    let guard = first.mutex(&name).lock().await.unwrap();
    let waiting = tokio::spawn(second.mutex(&name).lock().into_future());
    case.until_waiting(&first.keeper, &name, 1).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    second.cut_off(true);
    let _ = guard.lost().await;
    is_taken_only_after(case, &name, case.now()).await;
}

async fn held(case: &Case) -> (TestClient, LockName, Guard) {
    let name = case.name("m");
    let test_client = case.test_client(case.harness().short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    (test_client, name, guard)
}

/// No client gets the lock before `end` and the delay are over, and some client gets it afterwards.
async fn is_taken_only_after(case: &Case, name: &LockName, end: Instant) {
    let delay = case.harness().short().lock_delay;
    let other = case.keeper().await;
    let next = other.mutex(name).unwrap().lock().await.unwrap();
    let after = case.now().saturating_since(end);
    // Two clocks may differ by 1 %.
    assert!(after >= delay.mul_f64(0.98), "taken {after:?} after the end, the delay is {delay:?}");
    next.release().await.unwrap();
    let _: Duration = after;
}
