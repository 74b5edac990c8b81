//! Registers in files: the contract of a register, and what processes do to them.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::optimistic::{
    FileRegister, Outcome, Policy, Register, Version, Write, settle, swap, update,
};
use lockkeeper::{Effect, ErrorKind, FileStore, Keeper};
use lockkeeper_testing::register::RegisterHarness;
use tempfile::TempDir;

use crate::worker;

lockkeeper_testing::register_suite! {
    mod file_register;
    harness = InAFile;
}

struct InAFile(TempDir);

impl InAFile {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("locks.db")
    }

    async fn register(&self) -> FileRegister {
        FileStore::new(self.path()).open().await.unwrap().register()
    }
}

impl RegisterHarness for InAFile {
    async fn start() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(self.register().await)
    }
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

#[tokio::test]
async fn several_processes_lose_no_increment() {
    let file = InAFile::start().await;
    let mut workers: Vec<_> = (0..4).map(|_| worker::start(&file.path())).collect();
    // All workers run before the first of them begins.
    workers.iter_mut().for_each(|worker| assert_eq!(worker.ask("add n 1"), "added"));
    workers.iter_mut().for_each(|worker| worker.send("add n 50"));
    workers.iter_mut().for_each(|worker| assert_eq!(worker.answer(), "added"));
    let now = file.register().await.load("n").await.unwrap().unwrap();
    assert_eq!((number(Some(now.value)), now.version), (4 * 51, Version::new(4 * 51)));
    workers.into_iter().for_each(|worker| assert!(worker.end().success()));
}

/// After a process was killed during its updates, the register has exactly one write for each
/// update.
#[tokio::test]
async fn a_killed_process_leaves_whole_writes() {
    let file = InAFile::start().await;
    let register = file.register().await;
    let mut worker = worker::start(&file.path());
    worker.send("add n 1000000");
    let written = async || Version::of(register.load("n").await.unwrap().as_ref()).get();
    while written().await < 20 {
        tokio::task::yield_now().await;
    }
    worker.kill();
    let next = update(&register, "n", async |old| (number(old) + 1).to_string().into_bytes())
        .await
        .unwrap();
    assert_eq!(number(Some(next.value)), next.version.get());
}

/// The gate is shut, as by a process that is stopped inside. So the write is neither done nor lost.
#[tokio::test]
async fn an_unanswered_write_is_unknown_and_settled_later() {
    let file = InAFile::start().await;
    let register = file.register().await;
    update(&register, "n", async |_| b"1".to_vec()).await.unwrap();
    let gate = File::open(file.0.path().join("locks.db.gate")).unwrap();
    gate.lock().unwrap();
    let write = Write::new(Version::new(1), "2");
    let policy = Policy::default().within(Duration::from_millis(200));
    let Ok(Outcome::Unknown(error)) = swap(&policy, &register, "n", &write).await else {
        panic!("it was answered")
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    let text = error.to_string();
    assert!(
        text.starts_with("key \"n\": file:/")
            && text.contains("whether version 2 was written is not known"),
        "{text}"
    );
    // Reads work all the time.
    assert_eq!(register.load("n").await.unwrap().unwrap().version, Version::new(1));
    gate.unlock().unwrap();
    let settled = settle(&Policy::default(), &register, "n", &write).await.unwrap();
    assert!(matches!(settled, Outcome::Done(version) if version == Version::new(2)), "{settled:?}");
    // The first copy of the write arrives late, and has no further effect.
    let next = update(&register, "n", async |old| (number(old) + 1).to_string().into_bytes())
        .await
        .unwrap();
    assert_eq!((next.value, next.version), (b"3".to_vec(), Version::new(3)));
}

/// Locks and registers share one file, and do not see each other.
#[tokio::test]
async fn locks_and_registers_share_a_file() {
    let file = InAFile::start().await;
    let store = FileStore::new(file.path()).open().await.unwrap();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let first = keeper.mutex("n").unwrap().lock().await.unwrap();
    assert_eq!(store.register().load("n").await.unwrap(), None, "nothing is made by a look");
    update(&store.register(), "n", async |_| b"7".to_vec()).await.unwrap();
    first.check().unwrap();
    let token = first.token();
    first.release().await.unwrap();
    drop((store, keeper));

    let opened_again = file.register().await;
    assert_eq!(opened_again.load("n").await.unwrap().unwrap().value, b"7");
    let keeper =
        Keeper::builder(FileStore::new(file.path()).open().await.unwrap()).connect().await.unwrap();
    assert!(keeper.mutex("n").unwrap().lock().await.unwrap().token() > token);
}

#[tokio::test]
async fn a_register_whose_file_was_deleted_is_closed() {
    let file = InAFile::start().await;
    let register = file.register().await;
    update(&register, "n", async |_| b"7".to_vec()).await.unwrap();
    std::fs::remove_file(file.path()).unwrap();
    let error = register.load("n").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let error = update(&register, "n", async |_| b"8".to_vec()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::None), "{error}");
    let answer = register.compare_and_swap("n", &Write::new(Version::new(1), "8")).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed);
}
