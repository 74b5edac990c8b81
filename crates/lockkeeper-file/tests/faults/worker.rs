//! A separate process that runs commands on locks. A test can stop and kill it.
//!
//! The test binary starts itself again with one test, `worker::a_worker_does_as_it_is_ordered`.
//! That test then reads commands from its standard input instead of testing.

use std::path::Path;
use std::time::Duration;

use lockkeeper::{FileStore, Guard, Keeper};
use lockkeeper_testing::worker::{Hand, Worker, work};

/// A worker on the file store at this path.
pub(crate) fn start(store: &Path) -> Worker {
    Worker::start("worker::a_worker_does_as_it_is_ordered", store.to_str().unwrap())
}

#[test]
fn a_worker_does_as_it_is_ordered() {
    if let Some(store) = Worker::here() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(obey(&store));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut worker = start(&folder.path().join("locks.db"));
    assert!(worker.ask("lock n 5000 0").starts_with("locked "));
    assert_eq!(worker.ask("check"), "held");
    assert_eq!(worker.ask("release"), "released");
    assert!(worker.end().success());
}

/// The worker's side.
async fn obey(store: &str) {
    let store = FileStore::new(store).open().await.unwrap();
    let keeper = Keeper::builder(store).owner("worker").connect().await.unwrap();
    let mut hand = Hand::new(keeper.clone());
    work(async |words| match *words {
        ["wait-lost"] => format!("lost: {:?}", hand.guard.as_ref().unwrap().lost().await),
        ["fork"] => format!("child says {}", in_a_forked_child(hand.guard.take().unwrap())),
        _ => hand.does(words).await.unwrap_or_else(|| panic!("what is {words:?}?")),
    })
    .await;
    drop(hand);
    keeper.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// The state of the guard in a forked child, which then drops the guard. The guard stays alive in
/// this process.
#[allow(
    unsafe_code,
    reason = "to fork is unsafe; the child does nothing but look at the guard and end"
)]
fn in_a_forked_child(guard: Guard) -> String {
    let guard = std::mem::ManuallyDrop::new(guard);
    // SAFETY: between fork and _exit the child takes no lock that another thread may have held. The
    // test asserts exactly this of check, remaining and drop of a guard.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let lost =
            guard.check().is_err_and(|e| e.lost_reason() == Some(&lockkeeper::LostReason::Forked));
        let code = i32::from(lost && guard.remaining().is_zero());
        drop(std::mem::ManuallyDrop::into_inner(guard));
        // SAFETY: this ends the child at once, without running any code of the parent.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child was ended by a signal");
    match (libc::WEXITSTATUS(status), guard.check().is_ok()) {
        (1, true) => "lost, parent holds".to_owned(),
        other => format!("{other:?}"),
    }
}
