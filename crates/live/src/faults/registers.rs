//! Registers of a store: several processes, a killed process, a stopped server, and the locks
//! beside them.

use std::time::Duration;

use lockkeeper::Effect;
use lockkeeper::optimistic::{Outcome, Policy, Swap, Version, Write, settle, swap, update};

use super::worker::{self, number};
use super::{keeper, lock};
use crate::locks::{LONG, name, patiently, renewed};
use crate::server::{LiveStore, Server};

/// How many processes write at a time, and how often each of them does.
const PROCESSES: u64 = 4;
const TIMES: u64 = 50;

/// Several processes add one to the same register again and again, and no increment is lost.
pub async fn several_processes_lose_no_increment<S: LiveStore>() {
    let store = S::start().unwrap();
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| worker::start::<S>(&store.url())).collect();
    // All workers run before the first of them begins.
    workers.iter_mut().for_each(|worker| assert_eq!(worker.ask("add n 1"), "added"));
    workers.iter_mut().for_each(|worker| worker.send(&format!("add n {TIMES}")));
    workers.iter_mut().for_each(|worker| assert_eq!(worker.answer(), "added"));
    let now = S::register(&store.url()).await.load("n").await.unwrap().unwrap();
    let all = PROCESSES * (TIMES + 1);
    assert_eq!((number(Some(now.value)), now.version), (all, Version::new(all)));
    workers.into_iter().for_each(|worker| assert!(worker.end().success()));
}

/// After a process was killed during its updates, the register has exactly one write for each
/// update.
pub async fn a_killed_process_leaves_whole_writes<S: LiveStore>() {
    let store = S::start().unwrap();
    let register = S::register(&store.url()).await;
    let mut worker = worker::start::<S>(&store.url());
    worker.send("add n 1000000");
    let written = async || Version::of(register.load("n").await.unwrap().as_ref()).get();
    while written().await < 20 {
        tokio::task::yield_now().await;
    }
    worker.kill();
    let add = async |old| (number(old) + 1).to_string().into_bytes();
    let next = update(&*register, "n", add).await.unwrap();
    assert_eq!(number(Some(next.value)), next.version.get());
}

/// The lock of a name and the register of the same name do not see each other, and a client that
/// comes later finds both.
pub async fn locks_and_registers_share_a_store<S: LiveStore>() {
    let (store, name) = (S::start().unwrap(), name());
    let (first, register) = (keeper(&store.url(), LONG).await, S::register(&store.url()).await);
    let guard = lock(&first, &name).await;
    assert_eq!(register.load(&name).await.unwrap(), None, "nothing is made by a look");
    update(&*register, &name, async |_| b"7".to_vec()).await.unwrap();
    renewed(&guard).await;
    let (other, read) = (keeper(&store.url(), LONG).await, S::register(&store.url()).await);
    let tried = patiently(async || other.mutex(&*name).unwrap().try_lock().await).await;
    assert!(tried.is_none(), "a register has freed the lock");
    let token = guard.token();
    guard.release().await.unwrap();
    drop((first, register));
    assert_eq!(read.load(&name).await.unwrap().unwrap().value, b"7");
    let listed = patiently(async || other.admin().unwrap().list(&name, 10).await).await;
    assert!(listed.is_empty(), "a register is no lock: {listed:?}");
    assert!(lock(&other, &name).await.token() > token);
}

/// The server is stopped while a write is under way to it: its outcome is unknown, and is found out
/// afterwards.
pub async fn a_write_that_a_stopped_server_did_not_answer_is_settled_later<S: Server>() {
    let mut server = S::start_lasting().unwrap();
    let register = S::register(&(server.url() + "?timeout=1500ms")).await;
    update(&*register, "n", async |_| b"1".to_vec()).await.unwrap();
    let write = Write::new(Version::new(1), "2");
    server.pause().unwrap();
    let policy = Policy::default().within(Duration::from_secs(5));
    let Ok(Outcome::Unknown(error)) = swap(&policy, &*register, "n", &write).await else {
        panic!("it was answered")
    };
    assert_eq!(error.effect(), Effect::Unknown);
    server.resume().unwrap();
    let policy = Policy::default().within(LONG);
    let settled = settle(&policy, &*register, "n", &write).await.unwrap();
    assert!(matches!(settled, Outcome::Done(version) if version == Version::new(2)), "{settled:?}");
    // The first copy, which came late, has changed nothing more.
    let again = register.compare_and_swap("n", &Write::new(Version::new(2), "3")).await.unwrap();
    assert_eq!(again, Swap::Done);
}
