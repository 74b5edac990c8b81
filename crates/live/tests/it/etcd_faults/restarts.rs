//! All members are started again, with their data.

use std::time::Duration;

use lockkeeper_live::Etcd;

use super::{TIME_LIMIT, keeper, name, patiently, waiter, within};

/// Within its lease a holder keeps the lock; no other client gets it; and the waiter gets it at the
/// release.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_members_restart_and_a_holder_keeps_the_lock() {
    let mut etcd = Etcd::builder().members(3).start().unwrap();
    let (url, name, ttl) = (etcd.url() + "?timeout=1s", name(), Duration::from_secs(60));
    let holder = keeper(&url, ttl).await;
    let guard = patiently(async || holder.mutex(&name).unwrap().lock().await).await;
    let waiting = waiter(&keeper(&url, ttl).await, &name).await;
    etcd.restart_all().unwrap();
    etcd.leader().unwrap();
    let renewed = async { while guard.renew_once().await.is_err_and(|error| error.lost_reason().is_none()) {} };
    within(TIME_LIMIT, renewed).await;
    guard.check().unwrap();
    let other = keeper(&url, ttl).await;
    assert!(patiently(async || other.mutex(&name).unwrap().try_lock().await).await.is_none());
    assert!(!waiting.is_finished());
    let token = guard.token();
    within(TIME_LIMIT, guard.release()).await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    within(TIME_LIMIT, next.release()).await.unwrap();
}
