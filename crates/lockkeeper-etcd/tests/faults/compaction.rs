//! The history is compacted under a watch.

use std::time::Duration;

use lockkeeper_live::Etcd;

use crate::support::{LONG, TIME_LIMIT, keeper, name, waiter, within};

/// Many revisions pass and are compacted while one client waits and another watches. Both get the
/// later changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_compacted_while_one_waits() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (holder, other) = (keeper(&etcd.url(), LONG).await, keeper(&etcd.url(), LONG).await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = waiter(&other, &name).await;
    let mut watch = other.watch(&name).unwrap();
    assert_eq!(within(TIME_LIMIT, watch.changed()).await.unwrap().waiters.len(), 1);
    for number in 0..50 {
        etcd.control().put("/elsewhere", number.to_string()).unwrap();
    }
    etcd.control().compact().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    let next = within(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    let seen = within(TIME_LIMIT, async {
        loop {
            let info = watch.changed().await.unwrap();
            if info.waiters.is_empty() {
                break info;
            }
        }
    });
    assert_eq!(seen.await.holders[0].token, Some(next.token()));
    etcd.control().compact().unwrap();
    next.release().await.unwrap();
}
