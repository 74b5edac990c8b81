//! A server is killed and started again, or stopped for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, Event, Keeper, LockName, LostReason};

use super::{HASTY, lock, waiter};
use crate::locks::{LONG, TIME_LIMIT, is_free, name, patiently, renewed, within};
use crate::server::{Server, with};

/// On servers of three members a busy machine makes everything slow.
const SLOW_LIMIT: Duration = Duration::from_secs(40);

/// A client that gives a request up soon, and asks again.
async fn keeper(server: &impl Server, ttl: Duration) -> Keeper {
    super::keeper(&with(&server.url(), HASTY), ttl).await
}

/// Killed and started again with everything that it had acknowledged: the holder still holds the
/// lock, with the same token; nobody else gets it; who waits keeps waiting, and gets it at the
/// release, with a higher token.
pub async fn a_restart_on_all_data_keeps_the_lock_and_the_line<S: Server>() {
    is_outlasted::<S>(|_, _, _| ()).await;
}

/// The same, with data of others around the lock that come before it, while it is held, and after
/// the restart.
pub async fn a_restart_beside_foreign_data_keeps_the_lock_and_the_line<S: Server>() {
    is_outlasted(|server: &S, name, round| server.put_foreign_data(name, round).unwrap()).await;
}

/// A restart while one client holds and one waits. `foreign` puts data of others there, three
/// times.
async fn is_outlasted<S: Server>(foreign: impl Fn(&S, &LockName, usize)) {
    let (mut server, name, ttl) = (S::start_lasting().unwrap(), name(), Duration::from_secs(60));
    let around = |server: &S, round| foreign(server, &name.parse().unwrap(), round);
    around(&server, 0);
    let holder = keeper(&server, ttl).await;
    let guard = within(SLOW_LIMIT, lock(&holder, &name)).await;
    let waiting = waiter(&server, &keeper(&server, ttl).await, &name).await;
    around(&server, 1);
    server.restart().unwrap();
    around(&server, 2);
    renewed(&guard).await;
    let (third, token) = (keeper(&server, ttl).await, guard.token());
    let other = patiently(async || third.mutex(&*name).unwrap().try_lock().await).await;
    assert!(other.is_none() && !waiting.is_finished(), "it was given away");
    let info = patiently(async || third.inspect(&*name).await).await;
    assert_eq!(info.holders[0].token, Some(token));
    within(TIME_LIMIT, guard.release()).await.unwrap();
    let next = within(SLOW_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    within(TIME_LIMIT, next.release()).await.unwrap();
    is_free(&third, &name).await;
}

/// Paused for less than the ttl: the holder keeps the lock and sees no loss, renewals go on, and
/// who waits gets the lock at the release.
pub async fn a_server_stopped_for_less_than_the_ttl_loses_no_lock<S: Server>() {
    let (mut server, ttl) = (S::start_lasting().unwrap(), Duration::from_secs(15));
    let (losses, counted) = (Arc::new(AtomicU64::new(0)), name());
    let count = Arc::clone(&losses);
    let counting = move |event: &Event<'_>| {
        count.fetch_add(u64::from(matches!(event, Event::Lost { .. })), Ordering::SeqCst);
    };
    let url = server.url();
    let holder = patiently(async || {
        Keeper::from_url(url.as_str()).unwrap().ttl(ttl).on_event(counting.clone()).connect().await
    });
    let holder = holder.await;
    let guard = within(SLOW_LIMIT, lock(&holder, &counted)).await;
    let waiting = waiter(&server, &keeper(&server, ttl).await, &counted).await;
    server.pause().unwrap();
    tokio::time::sleep(Duration::from_millis(2800)).await;
    server.resume().unwrap();
    renewed(&guard).await;
    let first = guard.token();
    within(TIME_LIMIT, guard.release()).await.unwrap();
    let next = within(SLOW_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > first);
    within(TIME_LIMIT, next.release()).await.unwrap();
    assert_eq!(losses.load(Ordering::SeqCst), 0);
}

/// Paused for more than the ttl: the holder knows by its own clock that it has lost, while the
/// server still stands. What the holder had sent meanwhile brings nothing back when the server goes
/// on, and the lock is to be had.
pub async fn after_a_server_stop_longer_than_the_ttl_the_lock_stays_lost<S: Server>() {
    let (mut server, name, ttl) = (S::start_lasting().unwrap(), name(), 2 * S::LEAST_TTL);
    let holder = keeper(&server, ttl).await;
    let guard = within(SLOW_LIMIT, lock(&holder, &name)).await;
    let other = keeper(&server, LONG).await;
    server.pause().unwrap();
    let paused = Instant::now();
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Expired);
    assert!(paused.elapsed() < ttl + Duration::from_secs(3), "{:?}", paused.elapsed());
    assert!(guard.check().is_err());
    // So that the life of the lock is over at the server too.
    tokio::time::sleep(ttl.saturating_sub(paused.elapsed()) + Duration::from_millis(100)).await;
    server.resume().unwrap();
    let next = within(SLOW_LIMIT, lock(&other, &name)).await;
    assert!(next.token() > guard.token() && guard.check().is_err());
    assert_eq!(within(TIME_LIMIT, guard.release()).await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&next).await;
    within(TIME_LIMIT, next.release()).await.unwrap();
    is_free(&other, &name).await;
}

/// Tokens rise over restarts with the data.
pub async fn tokens_rise_over_restarts_on_all_data<S: Server>() {
    let (mut server, name, mut last) = (S::start_lasting().unwrap(), name(), None);
    for _ in 0..3 {
        let keeper = keeper(&server, LONG).await;
        let guard = within(SLOW_LIMIT, lock(&keeper, &name)).await;
        let token = Some(guard.token());
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        within(TIME_LIMIT, guard.release()).await.unwrap();
        server.restart().unwrap();
    }
}
