//! The server is stopped for a while, and its connections stay.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, Event, Keeper, LostReason};
use lockkeeper_live::Redis;

use super::{LONG, TIME_LIMIT, is_free, keeper, name, renewed, store, until_waiting, within};

/// Paused for less than the ttl: the holder keeps the lock and sees no loss, renewals go on, and
/// the waiter keeps its place and gets the lock at the release.
#[tokio::test]
async fn a_server_that_stands_for_less_than_the_ttl_costs_nobody_the_lock() {
    let mut server = Redis::start().unwrap();
    let (losses, counted) = (Arc::new(AtomicU64::new(0)), name());
    let count = Arc::clone(&losses);
    let counting = move |event: &Event<'_>| {
        count.fetch_add(u64::from(matches!(event, Event::Lost { .. })), Ordering::SeqCst);
    };
    let ttl = Duration::from_secs(8);
    let builder = Keeper::builder(store(server.address()).await).ttl(ttl).on_event(counting);
    let holder = builder.connect().await.unwrap();
    let guard = holder.mutex(&*counted).unwrap().lock().await.unwrap();
    let other = keeper(server.address(), ttl).await;
    let waiting = tokio::spawn(other.mutex(&*counted).unwrap().lock().into_future());
    until_waiting(&holder, &counted, 1).await;
    server.pause().unwrap();
    tokio::time::sleep(Duration::from_millis(2800)).await;
    server.resume().unwrap();
    renewed(&guard).await;
    let first = guard.token();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > first);
    next.release().await.unwrap();
    assert_eq!(losses.load(Ordering::SeqCst), 0);
}

/// Paused for more than the ttl: the holder knows by its own clock that it has lost the lock, while
/// the server is still stopped. The requests that it sent meanwhile bring nothing back when the
/// server goes on, and the lock is free.
#[tokio::test]
async fn a_server_that_stands_for_longer_than_the_ttl_ends_the_belief_and_what_comes_late_brings_nothing_back() {
    let mut server = Redis::start().unwrap();
    let (name, ttl) = (name(), Duration::from_millis(1500));
    let holder = keeper(server.address(), ttl).await;
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let other = keeper(server.address(), LONG).await;
    server.pause().unwrap();
    let paused = Instant::now();
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Expired);
    assert!(paused.elapsed() < ttl + Duration::from_secs(3), "{:?}", paused.elapsed());
    assert!(guard.check().is_err());
    // So that the lease of the lock is over at the server too.
    tokio::time::sleep(ttl.saturating_sub(paused.elapsed()) + Duration::from_millis(100)).await;
    server.resume().unwrap();
    let next = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    assert!(next.token() > guard.token());
    assert!(guard.check().is_err());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&next).await;
    next.release().await.unwrap();
    is_free(&other, &name).await;
}

/// `CLIENT PAUSE` delays every command: an attempt during the pause waits and succeeds, and a
/// holder with a longer ttl keeps its lock.
#[tokio::test]
async fn clients_that_are_paused_go_on_where_they_were() {
    let server = Redis::start().unwrap();
    let (name, ttl) = (name(), Duration::from_secs(6));
    let keeper = keeper(server.address(), ttl).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let began = Instant::now();
    server.run(&["CLIENT", "PAUSE", "1500", "ALL"]).unwrap();
    let other = within(TIME_LIMIT, keeper.mutex(format!("{name}2")).unwrap().lock()).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(1), "the server was not paused");
    guard.check().unwrap();
    renewed(&guard).await;
    other.release().await.unwrap();
    guard.release().await.unwrap();
}
