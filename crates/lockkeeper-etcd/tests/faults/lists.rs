//! What a list shows of a lock, and since when.

use std::time::{Duration, Instant};

use lockkeeper_live::Etcd;

use crate::support::{is_free, keeper, patiently, waiter};

/// etcd does not know when a claim was granted. The holder writes it with its first renewal, and
/// does not write the begin of its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_learns_since_when_a_lock_is_held_that_was_waited_for() {
    const WAITED: Duration = Duration::from_secs(5);
    let etcd = Etcd::start().unwrap();
    for ttl in [Duration::from_secs(3), Duration::from_secs(9)] {
        let keeper = keeper(&etcd.url(), ttl).await;
        let first = keeper.mutex("waited").unwrap().lock().await.unwrap();
        let waiting = waiter(&keeper, "waited").await;
        let waits = Instant::now();
        let is_known = async |known: &str| {
            let info = patiently(async || keeper.inspect("waited").await).await;
            let ages = (
                info.holders.first().and_then(|holder| holder.held),
                info.waiters.first().and_then(|w| w.waited),
            );
            if known == "holder" { ages.0 } else { ages.1 }
        };
        assert!(is_known("waiter").await.is_some());
        while waits.elapsed() < WAITED {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let granted = Instant::now();
        first.release().await.unwrap();
        let second = waiting.await.unwrap().unwrap();
        let held = loop {
            if let Some(held) = is_known("holder").await {
                break held;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(held <= granted.elapsed() + Duration::from_millis(100), "{held:?}");
        second.release().await.unwrap();
        is_free(&keeper, "waited").await;
    }
}
