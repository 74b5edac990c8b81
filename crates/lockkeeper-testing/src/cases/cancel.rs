//! Futures that are dropped after each of their polls, with good and with bad connections.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::together::together;
use crate::TestClient;
use crate::{Case, Ttls};
use lockkeeper::layer::{Fault, Faults, Operation};
use lockkeeper::{Guard, LockName, MultiGuard};

/// More polls than any attempt takes.
const POLLS_MAX: usize = 300;

/// The number of attempts side by side.
const BATCH: usize = 8;

/// `lock()` dropped after the k-th poll, for every k until it completes: the lock is free
/// afterwards.
pub async fn a_lock_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, Faults::none(), async |test_client, name, polls| {
        let guard = polled(polls, test_client.mutex(name).lock().into_future()).await;
        guard.map(|guard| drop(guard.unwrap())).is_some()
    })
    .await;
}

/// The same, with a store that loses, doubles, delays and refuses requests.
pub async fn a_lock_can_be_dropped_in_a_storm(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let guard = polled(polls, test_client.mutex(name).lock().into_future()).await;
        guard.map(|guard: lockkeeper::Result<Guard>| drop(guard.ok())).is_some()
    })
    .await;
}

/// `lock().min_hold(d)` is dropped while it begins the minimum hold, and requests arrive late: the
/// lock is free when `d` is over.
pub async fn a_minimum_hold_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let attempt = test_client.mutex(name).lock().min_hold(Duration::from_millis(30));
        let guard = polled(polls, attempt.into_future()).await;
        guard.map(|guard: lockkeeper::Result<Guard>| drop(guard.ok())).is_some()
    })
    .await;
}

/// `lock()` dropped while it waits in line behind a holder.
pub async fn a_wait_can_be_dropped_at_any_poll(case: &Case) {
    let blocker = case.keeper().await;
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let held = blocker.mutex(name).unwrap().lock().await.unwrap();
        let release = async {
            case.pass(Duration::from_millis(20)).await;
            held.release().await.unwrap();
        };
        let (guard, ()) =
            tokio::join!(polled(polls, test_client.mutex(name).lock().into_future()), release);
        guard.map(|guard: lockkeeper::Result<Guard>| drop(guard.ok())).is_some()
    })
    .await;
}

/// `lock().unfair()` dropped while it waits beside the line.
pub async fn an_unfair_wait_can_be_dropped_at_any_poll(case: &Case) {
    let blocker = case.keeper().await;
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let held = blocker.mutex(name).unwrap().lock().await.unwrap();
        let release = async {
            case.pass(Duration::from_millis(20)).await;
            held.release().await.unwrap();
        };
        let attempt = test_client.mutex(name).lock().unfair().into_future();
        let (guard, ()) = tokio::join!(polled(polls, attempt), release);
        guard.map(|guard: lockkeeper::Result<Guard>| drop(guard.ok())).is_some()
    })
    .await;
}

/// `try_upgrade()` dropped after the k-th poll: neither the reader nor the writer is left.
pub async fn an_upgrade_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let Ok(reader) = test_client.keeper.rw_lock(name).unwrap().read().await else {
            return false;
        };
        polled(polls, reader.try_upgrade()).await.map(drop).is_some()
    })
    .await;
}

/// `downgrade()` dropped after the k-th poll.
pub async fn a_downgrade_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let Ok(writer) = test_client.keeper.rw_lock(name).unwrap().write().await else {
            return false;
        };
        polled(polls, writer.downgrade()).await.map(drop).is_some()
    })
    .await;
}

/// `multi_lock().lock()` is dropped while it acquires three locks, and another client holds one of
/// them.
pub async fn a_multi_lock_can_be_dropped_at_any_poll(case: &Case) {
    let blocker = case.keeper().await;
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let names = [format!("{name}/1"), format!("{name}/2"), name.to_string()];
        let held = blocker.mutex(names[1].as_str()).unwrap().lock().await.unwrap();
        let release = async {
            case.pass(Duration::from_millis(20)).await;
            held.release().await.unwrap();
        };
        let attempt = test_client.keeper.multi_lock(names).unwrap().lock().into_future();
        let (guard, ()) = tokio::join!(polled(polls, attempt), release);
        guard.map(|guard: lockkeeper::Result<MultiGuard>| drop(guard.ok())).is_some()
    })
    .await;
}

/// The release of a multi-lock dropped after the k-th poll: all its locks are released
/// nevertheless.
pub async fn a_release_of_many_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let names = [format!("{name}/1"), format!("{name}/2"), name.to_string()];
        let Ok(guard) = test_client.keeper.multi_lock(names).unwrap().lock().await else {
            return false;
        };
        polled(polls, guard.release()).await.is_some()
    })
    .await;
}

/// `release()` dropped after the k-th poll: the lock is released nevertheless.
pub async fn a_release_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let Ok(guard) = test_client.mutex(name).lock().await else { return false };
        polled(polls, guard.release()).await.is_some()
    })
    .await;
}

/// `lock().detached()` is dropped before it ends: either the caller has a handle, or no claim is
/// left.
pub async fn a_detached_attempt_can_be_dropped_at_any_poll(case: &Case) {
    // A busy machine may pause the case between the grant and the adoption.
    let (blocker, lease) = (case.keeper().await, case.short().ttl * 4);
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let held = blocker.mutex(name).unwrap().lock().await.unwrap();
        let release = async {
            case.pass(Duration::from_millis(20)).await;
            held.release().await.unwrap();
        };
        let attempt = test_client.mutex(name).lock().detached(lease).into_future();
        let (handle, ()) = tokio::join!(polled(polls, attempt), release);
        let Some(handle) = handle else { return false };
        test_client.line.quiet();
        if let Ok(handle) = handle {
            test_client.keeper.adopt(handle).unwrap().release().await.unwrap();
        }
        true
    })
    .await;
}

/// The release of an adopted lock dropped after the k-th poll: the lock is released nevertheless.
pub async fn an_adopted_release_can_be_dropped_at_any_poll(case: &Case) {
    let lease = case.short().ttl;
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let Ok(handle) = test_client.mutex(name).lock().detached(lease).await else { return false };
        let guard = test_client.keeper.adopt(handle).unwrap();
        polled(polls, guard.release()).await.is_some()
    })
    .await;
}

/// `try_lock()` dropped after the k-th poll.
pub async fn a_try_can_be_dropped_at_any_poll(case: &Case) {
    at_every_poll(case, storm(), async |test_client, name, polls| {
        let guard = polled(polls, test_client.mutex(name).try_lock().into_future()).await;
        guard.map(|guard: lockkeeper::Result<Option<Guard>>| drop(guard.ok())).is_some()
    })
    .await;
}

/// A scope that is dropped leaves the lock held. A guard that was moved into an aborted task is
/// released.
pub async fn a_task_can_be_aborted(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(Ttls::long()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    drop(Box::pin(guard.while_held(std::future::pending::<()>())));
    guard.check().unwrap();
    let task = tokio::spawn(async move { guard.while_held(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    task.abort();
    let _ = task.await;
    case.is_free(&name).await;
}

fn storm() -> Faults {
    Faults::none()
        .with(Fault::LostReply, 120)
        .with(Fault::LostRequest, 60)
        .with(Fault::Refused, 60)
        .with(Fault::Twice, 60)
        .with(Fault::LateCopy, 120)
        .with(Fault::Overdue, 60)
        .slow(200, Duration::from_millis(20))
        .late(Duration::from_millis(400))
        .only(&[Operation::Claim, Operation::Renew, Operation::Withdraw, Operation::Amend])
}

/// Runs `attempt` with 1, 2, 3 … polls until it completes by itself. After each attempt the lock is
/// free, and so are the locks with longer names under its name, and the keeper is empty. Some
/// attempts run side by side, each with a lock and a keeper of its own.
async fn at_every_poll(
    case: &Case,
    faults: Faults,
    attempt: impl AsyncFn(&TestClient, &LockName, usize) -> bool,
) {
    for first in (1..POLLS_MAX).step_by(BATCH) {
        let batch = (first..first + BATCH).map(|polls| at_poll(case, &faults, &attempt, polls));
        if together(batch).await.contains(&true) {
            return;
        }
    }
    panic!("not complete after {POLLS_MAX} polls");
}

/// Returns whether `attempt` completed within this number of polls.
async fn at_poll(
    case: &Case,
    faults: &Faults,
    attempt: &impl AsyncFn(&TestClient, &LockName, usize) -> bool,
    polls: usize,
) -> bool {
    let name = case.name(&format!("poll/{polls}"));
    let test_client = case.test_client(case.short()).await;
    test_client.line.sow(u64::try_from(polls).unwrap_or(0));
    test_client.line.set(faults.clone());
    let completed = attempt(&test_client, &name, polls).await;
    test_client.line.quiet();
    test_client.line.settled().await;
    case.until("the keeper has let go", async || test_client.keeper.leftovers() == 0).await;
    for part in ["", "/1", "/2"] {
        case.is_free(&case.name(&format!("poll/{polls}{part}"))).await;
    }
    test_client.keeper.shutdown(Duration::from_secs(20)).await.unwrap();
    completed
}

/// Polls `future` at most this number of times, whenever the future asks for a poll, then drops it.
async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let polls = Arc::new(AtomicUsize::new(0));
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if polls.fetch_add(1, Ordering::Relaxed) + 1 >= times => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
