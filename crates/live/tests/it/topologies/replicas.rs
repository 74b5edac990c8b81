//! A lock counts only when a replica has it, and the replica is gone.

use std::time::{Duration, Instant};

use lockkeeper::ErrorKind;
use lockkeeper_live::Sentinel;

use super::{handed_over, keeper, waiter};
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
