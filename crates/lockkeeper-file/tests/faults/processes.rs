//! Processes that are stopped, killed and forked, on the file store.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lockkeeper::{FileStore, Keeper};
use tempfile::TempDir;

use crate::worker;

struct Store {
    _folder: TempDir,
    path: PathBuf,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        Self { _folder: folder, path }
    }

    async fn keeper(&self) -> Keeper {
        Keeper::builder(FileStore::new(&self.path).open().await.unwrap()).connect().await.unwrap()
    }
}

/// A holder that was stopped for longer than its ttl knows at its first look that it has lost the
/// lock. The later calls of the stopped holder do not disturb the next holder.
#[tokio::test]
async fn a_stopped_holder_has_lost_at_its_first_look() {
    let store = Store::new();
    let mut worker = worker::start(&store.path);
    assert!(worker.ask("lock n 500 0").starts_with("locked"));
    worker.stop();
    let keeper = store.keeper().await;
    let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
    // The command is sent before the process goes on, so the look is the first thing that the
    // process does.
    worker.send("check");
    worker.go_on();
    assert_eq!(worker.answer(), "lost: Expired");
    assert_eq!(worker.ask("release"), "Lost");
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(worker.end().success());
}

/// A stopped waiter loses its place, and the lock goes to the next waiter.
#[tokio::test]
async fn a_stopped_waiter_is_passed_by() {
    let store = Store::new();
    let keeper = store.keeper().await;
    let guard = keeper.mutex("n").unwrap().ttl(Duration::from_secs(2)).lock().await.unwrap();
    let mut worker = worker::start(&store.path);
    worker.send("lock n 500 0");
    while keeper.inspect("n").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    worker.stop();
    guard.release().await.unwrap();
    let other = store.keeper().await;
    let next = other.mutex("n").unwrap().lock().await.unwrap();
    let before = next.token().get();
    worker.go_on();
    next.release().await.unwrap();
    let granted = worker.answer();
    let token = granted.strip_prefix("locked ").unwrap().parse::<u64>().unwrap();
    assert!(token > before, "it has it after the one that passed by: {granted} after {before}");
    assert!(worker.end().success());
}

/// A process that is stopped inside the gate stops the store, but the deadlines of all holders
/// fire.
#[tokio::test]
async fn deadlines_fire_while_another_process_blocks_the_gate() {
    let store = Store::new();
    let mut worker = worker::start(&store.path);
    let keeper = store.keeper().await;
    let guard = keeper.mutex("mine").unwrap().ttl(Duration::from_millis(500)).lock().await.unwrap();
    assert!(worker.ask("lock n 500 0").starts_with("locked"));
    // A process that is stopped in the middle of a write leaves the gate shut.
    let gate = File::open(gate_of(&store)).unwrap();
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

fn gate_of(store: &Store) -> PathBuf {
    let folder = store.path.parent().unwrap();
    let gates = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    gates
        .into_iter()
        .find(|path| path.to_string_lossy().contains("gate"))
        .expect("the store has a gate")
}

/// The lock of a killed process is free at once.
#[tokio::test]
async fn a_killed_holder_is_gone_at_once() {
    let store = Store::new();
    let mut worker = worker::start(&store.path);
    let token: u64 = worker.ask("lock n 30000 0").strip_prefix("locked ").unwrap().parse().unwrap();
    let keeper = store.keeper().await;
    let mutex = keeper.mutex("n").unwrap();
    let waiting = tokio::spawn(mutex.lock().into_future());
    while keeper.inspect("n").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let killed = Instant::now();
    worker.kill();
    let guard = waiting.await.unwrap().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(5), "its ttl is 30 s");
    assert!(guard.token().get() > token);
    guard.release().await.unwrap();
}

/// With a lock-delay, the lock of a killed process stays taken for the delay.
#[tokio::test]
async fn a_killed_holders_delay_runs_out_first() {
    let store = Store::new();
    let mut worker = worker::start(&store.path);
    assert!(worker.ask("lock n 30000 700").starts_with("locked"));
    let keeper = store.keeper().await;
    let killed = Instant::now();
    worker.kill();
    let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
    let after = killed.elapsed();
    assert!(after >= Duration::from_millis(690) && after < Duration::from_secs(15), "{after:?}");
    guard.release().await.unwrap();
}

/// The guard in a forked child is lost, and dropping it sends nothing.
#[tokio::test]
async fn a_forked_childs_guard_is_lost_and_sends_nothing() {
    let store = Store::new();
    let mut worker = worker::start(&store.path);
    assert!(worker.ask("lock n 30000 0").starts_with("locked"));
    assert_eq!(worker.ask("fork"), "child says lost, parent holds");
    let keeper = store.keeper().await;
    assert!(keeper.inspect("n").await.unwrap().is_held());
    assert!(keeper.mutex("n").unwrap().try_lock().await.unwrap().is_none());
    worker.kill();
}

/// Tokens rise over processes that end in any way.
#[tokio::test]
async fn tokens_rise_over_restarts() {
    let store = Store::new();
    let mut last = 0;
    for round in 0..6 {
        let mut worker = worker::start(&store.path);
        let token: u64 =
            worker.ask("lock n 30000 0").strip_prefix("locked ").unwrap().parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        match round % 3 {
            0 => worker.kill(),
            1 => assert!(worker.end().success()),
            _ => {
                assert_eq!(worker.ask("release"), "released");
                assert!(worker.end().success());
            }
        }
    }
}

/// A lock is acquired in one process, renewed in a second, and released in a third.
#[tokio::test]
async fn a_detached_lock_is_handed_from_process_to_process() {
    let (store, elsewhere) = (Store::new(), Store::new());
    let keeper = store.keeper().await;
    let mut first = worker::start(&store.path);
    let handle = first.ask("detach n 60000");
    first.kill();
    assert!(
        keeper.mutex("n").unwrap().try_lock().await.unwrap().is_none(),
        "it ended with its process"
    );
    let mut second = worker::start(&store.path);
    assert_eq!(second.ask(&format!("renew {handle}")), "held");
    assert!(second.end().success());
    assert!(
        keeper.mutex("n").unwrap().try_lock().await.unwrap().is_none(),
        "the second process has ended it"
    );
    let error = elsewhere.keeper().await.adopt(handle.parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), lockkeeper::ErrorKind::Mismatch);
    for path in [&store.path, &elsewhere.path] {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let mut third = worker::start(&store.path);
    assert_eq!(third.ask(&format!("release {handle}")), "released");
    assert_eq!(third.ask(&format!("renew {handle}")), "Lost");
    assert_eq!(third.ask(&format!("release {handle}")), "Lost");
    assert!(third.end().success());
    keeper
        .mutex("n")
        .unwrap()
        .try_lock()
        .await
        .unwrap()
        .expect("it is free")
        .release()
        .await
        .unwrap();
}

/// A detached lock ends with its ttl while other claims wait, and no client has to end it.
#[tokio::test]
async fn a_detached_lock_without_renewals_ends_with_its_ttl() {
    let store = Store::new();
    let keeper = store.keeper().await;
    let mut worker = worker::start(&store.path);
    let began = Instant::now();
    let handle = worker.ask("detach n 1500");
    worker.kill();
    let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(1500));
    let error = keeper.adopt(handle.parse().unwrap()).unwrap().release().await.unwrap_err();
    assert_eq!(error.kind(), lockkeeper::ErrorKind::Lost);
    guard.check().unwrap();
    guard.release().await.unwrap();
}
