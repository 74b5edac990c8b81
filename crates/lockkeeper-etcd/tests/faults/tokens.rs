//! The token of a user is not valid any more.

use std::time::{Duration, Instant};

use lockkeeper_live::Etcd;

use crate::support::{LONG, TIME_LIMIT, keeper, name, waiter, within};

/// Sooner than a waiter looks by itself.
const SOON: Duration = Duration::from_millis(1200);

/// etcd checks the token of a stream with each watch that begins in it. A waiter is woken as fast
/// after the token has become invalid as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_after_the_token_became_invalid_is_woken_at_once() {
    let etcd =
        Etcd::builder().login("app", "hunter2").option("auth-token-ttl", "2").start().unwrap();
    let (url, name) = (etcd.url(), name());
    let (holder, other) = (keeper(&url, LONG).await, keeper(&url, LONG).await);
    let mut fastest = Duration::MAX;
    // In the first round the streams are made; a busy machine may delay one of the later rounds.
    for round in 0..6 {
        let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
        // Both clients have a stream of watches by now, and no request uses the tokens.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let waiting = waiter(&other, &name).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        if round > 0 {
            fastest = fastest.min(released.elapsed());
        }
        next.release().await.unwrap();
        if fastest < SOON {
            return;
        }
    }
    panic!("nobody was woken within {fastest:?}");
}
