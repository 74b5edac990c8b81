//! Requests to a holder to release its lock.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::{Admin, Keeper, LockName, ReleaseRequest, ReleaseRequested};

/// The entry of the event log for the request of these cases.
const REQUEST: &str = "asked by somebody: a deploy";

async fn ask(case: &Case, name: &LockName) -> bool {
    admin(case).await.request_release(name, "a deploy").await.unwrap()
}

async fn admin(case: &Case) -> Admin {
    let keeper: Keeper = case.keeper().await;
    keeper.admin().unwrap()
}

/// Waits for the request for a whole ttl: a holder learns of a request within two renewals, even if
/// the store reports nothing by itself.
async fn received(case: &Case, requested: ReleaseRequested) -> ReleaseRequest {
    let within = Ttls::long().ttl;
    case.clock()
        .timeout(within, requested)
        .await
        .expect("the holder hears of it by its next renewals")
}

fn at_once(requested: ReleaseRequested) -> Option<ReleaseRequest> {
    match pin!(requested).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(request) => Some(request),
        Poll::Pending => None,
    }
}

/// The holder learns who asks, for which lock, and why. The holder goes on holding the lock, and
/// gets one event.
pub async fn a_holder_learns_who_asks_and_why(case: &Case) {
    let (name, holder) = (case.name("m"), case.test_client(case.short()).await);
    let guard = holder.mutex(&name).lock().await.unwrap();
    assert!(!ask(case, &case.name("unused")).await, "nobody holds it");
    let requested = guard.release_requested();
    assert!(ask(case, &name).await);
    let request = received(case, requested.clone()).await;
    assert_eq!((&request.name, &*request.by, &*request.reason), (&name, "somebody", "a deploy"));
    // The request stays known after each look, and further renewals report no second event.
    assert_eq!(at_once(requested), Some(request));
    case.pass(case.short().ttl).await;
    let reported = holder.event_log.entries().iter().filter(|entry| *entry == REQUEST).count();
    assert_eq!(reported, 1, "{:?}", holder.event_log);
    guard.check().unwrap();
    assert!(holder.keeper.check_sequencer(&guard.sequencer()).await.unwrap());
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// A holder that begins to wait for a request gets an earlier request.
pub async fn a_request_before_the_wait_is_not_missed(case: &Case) {
    let (name, holder) = (case.name("m"), case.test_client(case.short()).await);
    let guard = holder.mutex(&name).lock().await.unwrap();
    assert!(ask(case, &name).await);
    case.until("the holder has heard", async || holder.event_log.has(REQUEST)).await;
    assert!(at_once(guard.release_requested()).is_some());
    guard.release().await.unwrap();
}

/// A waiter is not asked, and the next holder does not get a request to the holder before it.
pub async fn the_next_holder_is_not_asked(case: &Case) {
    let name = case.name("m");
    let (first, second) =
        (case.test_client(case.short()).await, case.test_client(case.short()).await);
    let held = first.mutex(&name).lock().await.unwrap();
    let waiting = tokio::spawn(second.mutex(&name).lock().into_future());
    case.until_waiting(&first.keeper, &name, 1).await;
    assert!(ask(case, &name).await);
    received(case, held.release_requested()).await;
    held.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    next.renew_once().await.unwrap();
    case.pass(case.short().ttl).await;
    assert!(!second.event_log.has(REQUEST) && at_once(next.release_requested()).is_none());
    // Another request asks the present holder.
    assert!(ask(case, &name).await);
    received(case, next.release_requested()).await;
    next.release().await.unwrap();
}

/// All holders of a shared lock are asked. The guard of several locks gets the first request for
/// one of them.
pub async fn all_who_hold_are_asked(case: &Case) {
    let (name, other) = (case.name("r"), case.name("s"));
    let (one, two) = (case.test_client(case.short()).await, case.test_client(case.short()).await);
    let first = one.keeper.rw_lock(&name).unwrap().read().await.unwrap();
    let both = two.keeper.multi().read(&name).lock(&other).build().unwrap().lock().await.unwrap();
    assert!(ask(case, &name).await);
    assert_eq!(received(case, first.release_requested()).await.name, name);
    assert_eq!(received(case, both.release_requested()).await.name, name);
    first.release().await.unwrap();
    both.release().await.unwrap();
}

/// A leader gets a request. A reader that has become the writer is asked as before.
pub async fn a_leader_and_a_converted_guard_are_asked(case: &Case) {
    let (name, test_client) = (case.name("e"), case.test_client(case.short()).await);
    let leadership = test_client.keeper.election(&name).unwrap().campaign("here").await.unwrap();
    assert!(ask(case, &name).await);
    received(case, leadership.release_requested()).await;
    leadership.resign().await.unwrap();
    let name = case.name("r");
    let guard = test_client.keeper.rw_lock(&name).unwrap().read().await.unwrap();
    assert!(ask(case, &name).await);
    received(case, guard.release_requested()).await;
    let guard = guard.try_upgrade().await.unwrap();
    assert!(at_once(guard.release_requested()).is_some(), "the request is for this holder");
    guard.release().await.unwrap();
}

/// A holder that is cut off gets a request when it is connected again.
pub async fn a_request_while_the_holder_is_cut_off_arrives_later(case: &Case) {
    let (name, holder) = (case.name("m"), case.test_client(case.short()).await);
    let guard = holder.mutex(&name).lock().await.unwrap();
    holder.cut_off(true);
    assert!(ask(case, &name).await);
    case.pass(Duration::from_millis(100)).await;
    holder.cut_off(false);
    received(case, guard.release_requested()).await;
    guard.release().await.unwrap();
}

/// The process that has adopted the lock gets the request with a renewal, though the process that
/// acquired the lock is gone.
pub async fn who_has_adopted_it_is_asked(case: &Case) {
    let (name, first) = (case.name("m"), case.test_client(Ttls::long()).await);
    let handle = first.mutex(&name).lock().detached(Ttls::long().ttl).await.unwrap();
    drop(first);
    let keeper = case.keeper().await;
    let guard = keeper.adopt(handle).unwrap();
    assert!(ask(case, &name).await);
    case.until("it is renewed", async || guard.renew_once().await.is_ok()).await;
    assert_eq!(received(case, guard.release_requested()).await.reason, "a deploy");
    guard.release().await.unwrap();
}
