//! A client is stopped, or killed.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper_live::redis;

use crate::support::{LONG, TIME_LIMIT, is_free, keeper, name, until_waiting, within};
use crate::worker;

const TTL: Duration = Duration::from_millis(1500);

/// A holder that is stopped for longer than its ttl knows at its first look that it has lost the
/// lock; its later requests do not disturb the present holder.
#[tokio::test]
async fn a_stopped_holder_has_lost_at_its_first_look() {
    let (server, name) = (redis().unwrap(), name());
    let mut worker = worker::start(&server.url());
    let older = worker.lock(&name, TTL);
    worker.stop();
    let keeper = keeper(server.address(), LONG).await;
    let guard = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    assert!(guard.token().get() > older);
    // Sent before the process goes on, so that the look is its first action.
    worker.send("check");
    worker.go_on();
    assert_eq!(worker.answer(), "lost: Expired");
    assert_eq!(worker.ask("release"), "Lost");
    guard.renew_once().await.unwrap();
    guard.release().await.unwrap();
    is_free(&keeper, &name).await;
}

/// A holder that is stopped for less than its ttl holds the lock when it goes on.
#[tokio::test]
async fn a_holder_that_was_stopped_for_less_than_its_ttl_still_holds() {
    let (server, name) = (redis().unwrap(), name());
    let mut worker = worker::start(&server.url());
    worker.lock(&name, Duration::from_secs(8));
    worker.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    worker.send("check");
    worker.go_on();
    assert_eq!(worker.answer(), "held");
    assert_eq!(worker.ask("release"), "released");
}

/// A waiter that is stopped loses its place, and the waiters behind it get the lock; when it goes
/// on, it joins the line again.
#[tokio::test]
async fn a_stopped_waiter_is_passed_by() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server.address(), LONG).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let mut worker = worker::start(&server.url());
    worker.send(&format!("lock {name} {}", LONG.as_millis()));
    until_waiting(&keeper, &name, 1).await;
    worker.stop();
    guard.release().await.unwrap();
    let other = crate::support::keeper(server.address(), LONG).await;
    let next = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    worker.go_on();
    next.release().await.unwrap();
    assert!(worker.answer().starts_with("locked"));
    assert_eq!(worker.ask("release"), "released");
}

/// A killed holder keeps the lock for its ttl, and no longer.
#[tokio::test]
async fn a_killed_holder_costs_its_ttl() {
    let (server, name) = (redis().unwrap(), name());
    let mut worker = worker::start(&server.url());
    let older = worker.lock(&name, TTL);
    let keeper = keeper(server.address(), LONG).await;
    let waiting = tokio::spawn(keeper.mutex(&*name).unwrap().lock().into_future());
    until_waiting(&keeper, &name, 1).await;
    drop(worker);
    let killed = Instant::now();
    let guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(guard.token().get() > older);
    assert!(killed.elapsed() < TTL + Duration::from_secs(3), "{:?}", killed.elapsed());
    guard.release().await.unwrap();
}

/// A waiter that is killed at the head of the line delays the waiters behind it by a waiter's ttl,
/// since the release grants the lock to it; they get the lock in their order.
#[tokio::test]
async fn a_dead_waiter_at_the_head_costs_a_waiters_ttl() {
    let (server, name) = (redis().unwrap(), name());
    let holder = keeper(server.address(), LONG).await;
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let mut worker = worker::start(&server.url());
    worker.send(&format!("lock {name} {}", TTL.as_millis()));
    until_waiting(&holder, &name, 1).await;
    let mut behind = Vec::new();
    for position in 2..4 {
        let next = keeper(server.address(), LONG).await;
        behind.push(tokio::spawn(next.mutex(&*name).unwrap().lock().into_future()));
        until_waiting(&holder, &name, position).await;
    }
    drop(worker);
    guard.release().await.unwrap();
    let (released, mut last) = (Instant::now(), 0);
    for (position, next) in behind.into_iter().enumerate() {
        let guard = within(TIME_LIMIT, next).await.unwrap().unwrap();
        if position == 0 {
            // The ttl of the dead waiter, and the time until the next waiter looks.
            assert!(released.elapsed() < TTL + Duration::from_secs(4), "{:?}", released.elapsed());
        }
        assert!(guard.token().get() > last);
        last = guard.token().get();
        guard.release().await.unwrap();
    }
    is_free(&holder, &name).await;
}
