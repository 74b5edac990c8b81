//! A process that is stopped in the middle of a write, and a process that forks, on the file store.

use std::fs::File;
use std::time::{Duration, Instant};

use lockkeeper_live::LiveStore as _;

use crate::store::InAFile;
use crate::worker;

/// A process that is stopped inside the gate stops the store, but the deadlines of all holders
/// fire.
#[tokio::test]
async fn deadlines_fire_while_another_process_blocks_the_gate() {
    let store = InAFile::start().unwrap();
    let mut worker = worker::start(&store.path());
    let keeper = store.keeper().await;
    let guard = keeper.mutex("mine").unwrap().ttl(Duration::from_millis(500)).lock().await.unwrap();
    assert!(worker.ask("lock n 500 0").starts_with("locked"));
    // A process that is stopped in the middle of a write leaves the gate shut.
    let gate = File::open(store.gate()).unwrap();
    gate.lock().unwrap();
    let start = Instant::now();
    worker.send("wait-lost");
    guard.lost().await;
    assert!(guard.check().is_err());
    assert!(worker.answer().starts_with("lost"));
    assert!(start.elapsed() < Duration::from_secs(5));
    gate.unlock().unwrap();
    // The store then goes on.
    let again = keeper.mutex("n").unwrap().lock().await.unwrap();
    again.release().await.unwrap();
    assert!(worker.end().success());
}

/// The guard in a forked child is lost, and dropping it sends nothing.
#[tokio::test]
async fn a_forked_childs_guard_is_lost_and_sends_nothing() {
    let store = InAFile::start().unwrap();
    let mut worker = worker::start(&store.path());
    assert!(worker.ask("lock n 30000 0").starts_with("locked"));
    assert_eq!(worker.ask("fork"), "child says lost, parent holds");
    let keeper = store.keeper().await;
    assert!(keeper.inspect("n").await.unwrap().is_held());
    assert!(keeper.mutex("n").unwrap().try_lock().await.unwrap().is_none());
    worker.kill();
}
