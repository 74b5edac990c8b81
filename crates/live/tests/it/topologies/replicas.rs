//! A lock counts only when a replica has it, and the replica is gone.

use std::time::{Duration, Instant};

use lockkeeper::ErrorKind;
use lockkeeper_live::{Cluster, Sentinel};

use super::{handed_over, is_still_held, keeper, waiter};
use crate::faults::{LONG, PATIENCE, is_free, renewed, within};

/// An attempt ends in time, with an error that says what is missing and what to do, and nothing of it is left; what was
/// held before is still held. When the replica is back locks are to be had as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_its_replica_no_lock_is_handed_out_and_none_is_left() {
    let mut sentinel = Sentinel::builder().down_after(4 * LONG).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=1s", sentinel.url()), LONG).await;
    let other = keeper(&sentinel.url(), LONG).await;
    let held = careful.mutex("held").unwrap().lock().await.unwrap();
    sentinel.server(1).pause().unwrap();
    let began = Instant::now();
    let error = within(2 * PATIENCE, careful.mutex("a-lock").unwrap().try_lock()).await.unwrap_err();
    eprintln!("after {:?}: {error}", began.elapsed());
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("a-lock") && text.contains("0 of 1 replicas"), "{text}");
    assert!(text.contains("Try: a look at the replicas, or a lower min-replicas"), "{text}");
    // One who waits does so for as long as it may, and no longer.
    let began = Instant::now();
    let waited = careful.mutex("a-lock").unwrap().lock().wait(Duration::from_secs(2));
    within(2 * PATIENCE, waited).await.expect_err("no replica has it");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    let gone = async { while other.inspect("a-lock").await.unwrap().is_held() {} };
    within(PATIENCE, gone).await;
    is_free(&other, "a-lock").await;
    renewed(&held).await;
    sentinel.server(1).resume().unwrap();
    let guard = within(PATIENCE, careful.mutex("a-lock").unwrap().lock()).await.unwrap();
    let waiting = waiter(&careful, "a-lock").await;
    let next = handed_over(guard, waiting).await;
    next.release().await.unwrap();
    held.release().await.unwrap();
}

/// In a Cluster the replica of the slot's own master counts, also when it has become the master and the other follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_cluster_the_replica_of_the_slots_own_master_is_needed() {
    let mut cluster = Cluster::builder().node_timeout(4 * LONG).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=1s", cluster.url()), LONG).await;
    let other = keeper(&cluster.url(), LONG).await;
    let owner =
        |cluster: &Cluster, name: &str| cluster.owner(cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()).unwrap();
    let here = "a-lock";
    let master = owner(&cluster, here);
    let there = (0..).map(|number| format!("name-{number}")).find(|name| owner(&cluster, name) != master).unwrap();
    let held = careful.mutex(here).unwrap().lock().await.unwrap();
    cluster.node(master + 3).pause().unwrap();
    let free = careful.mutex(&*there).unwrap().lock().await.unwrap();
    free.release().await.unwrap();
    assert!(is_still_held(&held).await, "it counted when it was got");
    held.release().await.unwrap();
    let error = within(2 * PATIENCE, careful.mutex(here).unwrap().try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let gone = async { while other.inspect(here).await.unwrap().is_held() {} };
    within(PATIENCE, gone).await;
    cluster.node(master + 3).resume().unwrap();
    let guard = within(PATIENCE, careful.mutex(here).unwrap().lock()).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert_eq!(cluster.fail_over(master).unwrap(), master + 3);
    let guard = within(PATIENCE, careful.mutex(here).unwrap().lock()).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap();
}
