//! Stores and registers that a keeper opens.

use std::sync::{Arc, Mutex};
use std::thread;

use async_trait::async_trait;
use lockkeeper::blocking::Keeper;
use lockkeeper::blocking::optimistic::Register;
use lockkeeper::optimistic::{self, MemoryRegister, Swap, Version, Versioned, Write};
use lockkeeper::store::Store;
use lockkeeper::{ErrorKind, FileStore, MemoryStore, Open, Result};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Builder;

use crate::engine::spy::millis;

/// A store like a server over the network: it has a socket, and a task that reads the socket, in
/// the runtime in which the store is opened.
#[derive(Clone, Debug, Default)]
struct Remote {
    /// The names of the threads that answered, one for each answer. The end of the task adds an
    /// empty name.
    answered_on: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Connection(tokio::sync::Mutex<UnixStream>);

/// Records the end of the task.
struct Ended(Remote);

impl Remote {
    fn connect(&self) -> Connection {
        let (near, mut far) = UnixStream::pair().unwrap();
        let ended = Ended(self.clone());
        tokio::spawn(async move {
            while let Ok(asked) = far.read_u8().await {
                ended.0.note(thread::current().name().unwrap_or("unnamed"));
                far.write_u8(asked).await.unwrap();
            }
        });
        Connection(tokio::sync::Mutex::new(near))
    }

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

impl Connection {
    async fn ask(&self) {
        let mut near = self.0.lock().await;
        near.write_u8(7).await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), 7);
    }
}

/// A register at the other end of the connection.
#[derive(Debug)]
struct RemoteRegister(Connection, MemoryRegister);

impl std::fmt::Display for RemoteRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("remote:")
    }
}

#[async_trait]
impl optimistic::Register for RemoteRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        self.0.ask().await;
        self.1.load(key).await
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        self.0.ask().await;
        self.1.compare_and_swap(key, write).await
    }
}

#[async_trait]
impl Open<dyn optimistic::Register> for Remote {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn optimistic::Register>> {
        let connection = self.connect();
        connection.ask().await;
        Ok(Arc::new(RemoteRegister(connection, MemoryRegister::new())))
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

#[test]
fn the_connection_of_a_register_lives_as_long_as_the_register() {
    let remote = Remote::default();
    let register = Register::open(remote.clone()).unwrap();
    let clone = register.clone();
    drop(register);
    assert_eq!(clone.update("n", |_| b"7".to_vec()).unwrap().version, Version::new(1));
    assert!(remote.answers().len() >= 3, "opening, reading, writing");
    all_on_the_engines_thread(&remote);
    drop(clone);
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
    let register = Register::open(file.clone()).unwrap();
    let guard = keeper.mutex("n").unwrap().lock().unwrap();
    let now = register.update("n", |_| b"7".to_vec()).unwrap();
    let other = Keeper::from_url("memory:?prefix=app/").unwrap().store(file).connect().unwrap();
    assert!(
        other.mutex("n").unwrap().try_lock().unwrap().is_none(),
        "it is the same lock in the same file"
    );
    guard.release().unwrap();
    assert_eq!(register.load("n").unwrap().unwrap().version, now.version);
    assert!(register.to_string().starts_with("file:/"), "{register}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("no/such/folder/locks.db");
    let refused = Keeper::builder(FileStore::new(&path)).connect().unwrap_err();
    let also = Register::open(FileStore::new(&path)).unwrap_err();
    for error in [refused, also] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("no/such/folder") && error.to_string().contains("Try: "),
            "{error}"
        );
    }
}
