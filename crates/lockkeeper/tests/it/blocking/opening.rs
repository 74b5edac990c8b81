//! Stores that a keeper opens.

use std::sync::{Arc, Mutex};
use std::thread;

use async_trait::async_trait;
use lockkeeper::blocking::Keeper;
use lockkeeper::optimistic::{Register, update};
use lockkeeper::store::Store;
use lockkeeper::{ErrorKind, FileStore, MemoryStore, Open, Result};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::engine::spy::millis;

/// A store like a server over the network: it has a task in the runtime in which the store is
/// opened.
#[derive(Clone, Debug, Default)]
struct Remote {
    /// The name of the thread of the task, once for each run. The end of the task adds an empty
    /// name.
    answered_on: Arc<Mutex<Vec<String>>>,
}

/// Records the end of the task.
struct Ended(Remote);

impl Remote {
    fn note(&self, what: &str) {
        self.answered_on.lock().unwrap().push(what.to_owned());
    }

    fn answers(&self) -> Vec<String> {
        self.answered_on.lock().unwrap().clone()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.note("");
    }
}

/// The store is in memory. A task with a timer runs beside it.
#[async_trait]
impl Open<dyn Store> for Remote {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        let ended = Ended(self.as_ref().clone());
        tokio::spawn(async move {
            loop {
                ended.0.note(thread::current().name().unwrap_or("unnamed"));
                tokio::time::sleep(millis(1)).await;
            }
        });
        Ok(Arc::new(MemoryStore::new()))
    }
}

fn all_on_the_engines_thread(remote: &Remote) {
    assert!(remote.answers().iter().all(|thread| thread == "lockkeeper"), "{:?}", remote.answers());
}

#[test]
fn tasks_that_a_store_starts_at_opening_live_as_long_as_the_engine() {
    let remote = Remote::default();
    let keeper = Keeper::builder(remote.clone()).connect().unwrap();
    super::until(|| remote.answers().len() > 5);
    keeper.mutex("n").unwrap().lock().unwrap().release().unwrap();
    all_on_the_engines_thread(&remote);
    drop(keeper);
    super::until(|| remote.answers().last().is_some_and(String::is_empty));
}

/// The engine and its store run on a thread of their own, so the caller's thread may block.
#[test]
fn a_dedicated_thread_is_where_the_store_is_opened() {
    let remote = Remote::default();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let builder = lockkeeper::Keeper::builder(remote.clone()).dedicated_thread();
        let keeper = builder.connect().await.unwrap();
        super::until(|| remote.answers().len() > 5);
        all_on_the_engines_thread(&remote);
        drop(keeper);
    });
}

#[test]
fn in_a_runtime_the_store_is_opened_there() {
    let remote = Remote::default();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let keeper = lockkeeper::Keeper::builder(remote.clone()).connect().await.unwrap();
        keeper.mutex("n").unwrap().lock().await.unwrap().release().await.unwrap();
    });
    assert_eq!(remote.answers().last().unwrap(), "", "it ended with the runtime");
    assert!(remote.answers().iter().all(|thread| thread != "lockkeeper"));
}

#[test]
fn locks_and_registers_are_opened_by_one_builder() {
    let folder = TempDir::new().unwrap();
    let file = FileStore::new(folder.path().join("app/locks.db")).create_parents(true);
    let keeper = Keeper::builder(file.clone()).prefix("app/").connect().unwrap();
    let runtime = Runtime::new().unwrap();
    let register = runtime.block_on(file.clone().open()).unwrap().register();
    let guard = keeper.mutex("n").unwrap().lock().unwrap();
    let now = runtime.block_on(update(&register, "n", async |_| b"7".to_vec())).unwrap();
    let other = Keeper::from_url("memory:?prefix=app/").unwrap().store(file).connect().unwrap();
    assert!(
        other.mutex("n").unwrap().try_lock().unwrap().is_none(),
        "it is the same lock in the same file"
    );
    guard.release().unwrap();
    let kept = runtime.block_on(register.load("n")).unwrap().unwrap();
    assert_eq!(kept.version, now.version);
    assert!(register.to_string().starts_with("file:/"), "{register}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("no/such/folder/locks.db");
    let refused = Keeper::builder(FileStore::new(&path)).connect().unwrap_err();
    let also = Runtime::new().unwrap().block_on(FileStore::new(&path).open()).unwrap_err();
    for error in [refused, also] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("no/such/folder") && error.to_string().contains("Try: "),
            "{error}"
        );
    }
}
