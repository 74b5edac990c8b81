//! The locks without async, on threads of every kind.

mod guards;
mod opening;
mod reentrant;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lockkeeper::blocking::{Keeper, connect};
use lockkeeper::{Break, ErrorKind, FileStore, Handle, MemoryStore, Mode, SessionState, Target};
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::engine::spy::{TestClient, World, millis, secs};

/// A client whose engine has a thread of its own, and a keeper for threads on the same store.
fn test_client() -> (World, TestClient, Keeper) {
    let world = World::real();
    let test_client = Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(world.test_client_with(|b| b.dedicated_thread()));
    let keeper = Keeper::builder(Arc::clone(&test_client.spy)).connect().unwrap();
    (world, test_client, keeper)
}

/// Waits until another thread has done it.
fn until(mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < secs(60), "it never came");
        thread::yield_now();
    }
}

/// Uses the whole API, on each store.
fn tour() {
    let folder = TempDir::new().unwrap();
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let keepers = [
        Keeper::memory(),
        Keeper::builder(MemoryStore::new()).connect().unwrap(),
        connect(&url).unwrap(),
    ];
    hold_and_wait(&keepers);
    for keeper in keepers {
        hand_over(&keeper);
        read_and_write(&keeper);
        take_permits(&keeper);
        several(&keeper);
        lead(&keeper);
        look(&keeper);
        detach(&keeper);
        assert_eq!(keeper.session().state(), SessionState::Valid);
        keeper.shutdown(secs(10)).unwrap();
    }
    for found in lockkeeper::blocking::doctor::examine(&url.parse().unwrap(), secs(20)) {
        assert_ne!(found.level, lockkeeper::doctor::Level::Fail, "{found:?}");
    }
}

/// One wait on the first store is longer than the ttl of a lock on each store.
fn hold_and_wait(keepers: &[Keeper]) {
    let mutexes = keepers.iter().map(|keeper| keeper.mutex("n").unwrap().ttl(secs(3)));
    let mutexes: Vec<_> = mutexes.collect();
    let guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock().unwrap()).collect();
    let busy = mutexes[0].attempt().wait(secs(4)).lock().unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Timeout);
    for (guard, (mutex, keeper)) in guards.into_iter().zip(mutexes.iter().zip(keepers)) {
        guard.check().expect("it was renewed meanwhile");
        assert!(mutex.try_lock().unwrap().is_none());
        assert_eq!((guard.mode(), guard.name()), (Mode::Exclusive, mutex.name()));
        assert!(keeper.check_sequencer(&guard.sequencer()).unwrap());
        guard.release().unwrap();
    }
}

fn hand_over(keeper: &Keeper) {
    let mutex = keeper.mutex("n").unwrap();
    let guard = mutex.lock().unwrap();
    let token = guard.token();
    thread::scope(|threads| {
        let next = threads.spawn(|| mutex.lock().unwrap().token());
        until(|| keeper.inspect("n").unwrap().waiters.len() == 1);
        drop(guard);
        assert!(next.join().unwrap() > token);
    });
}

fn read_and_write(keeper: &Keeper) {
    let prices = keeper.rw_lock("prices").unwrap();
    let (one, two) = (prices.read().unwrap(), prices.try_read().unwrap().unwrap());
    assert!(prices.try_write().unwrap().is_none());
    let one = one.try_upgrade().unwrap_err().into_guard().unwrap();
    one.release().unwrap();
    let writer = two.try_upgrade().unwrap();
    assert!(prices.attempt().wait(millis(20)).try_read().unwrap().is_none());
    let reader = writer.downgrade().unwrap();
    assert_eq!(prices.attempt().read().unwrap().mode(), Mode::Shared);
    let (reader, refused) = reader.downgrade().unwrap_err().into_parts();
    let reader = reader.unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    reader.release().unwrap();
    assert_eq!(prices.write().unwrap().mode(), Mode::Exclusive);
    let handle = prices.attempt().wait(secs(20)).detached(secs(60)).read().unwrap();
    keeper.adopt(handle).unwrap().release().unwrap();
}

fn take_permits(keeper: &Keeper) {
    let permits = keeper.semaphore("permits", 5).unwrap();
    let (one, four) = (permits.acquire().unwrap(), permits.acquire_many(4).unwrap());
    assert_eq!((permits.permits(), four.mode()), (5, Mode::Permits(4)));
    assert!(permits.try_acquire().unwrap().is_none());
    one.release().unwrap();
    assert!(permits.try_acquire_many(2).unwrap().is_none());
    drop(permits.attempt().wait(secs(20)).acquire().unwrap());
    assert_eq!(permits.acquire_many(6).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(keeper.semaphore("permits", 0).unwrap_err().kind(), ErrorKind::Invalid);
    let two = keeper.semaphore("others", 2).unwrap();
    let handle = two.attempt().detached(secs(60)).acquire_many(2).unwrap();
    assert!(two.try_acquire().unwrap().is_none());
    keeper.adopt(handle).unwrap().release().unwrap();
}

fn lead(keeper: &Keeper) {
    let election = keeper.election("leader").unwrap();
    let mut observer = election.observe();
    assert_eq!(observer.next().unwrap(), None);
    assert_eq!(observer.next_timeout(millis(20)).unwrap(), None);
    let mut leadership = election.attempt().wait(secs(20)).campaign("one").unwrap();
    assert!(election.try_campaign("two").unwrap().is_none());
    assert_eq!(observer.next_timeout(secs(20)).unwrap().unwrap().unwrap().value, b"one");
    leadership.proclaim("uno").unwrap();
    assert_eq!(observer.next().unwrap().unwrap().value, b"uno");
    assert_eq!(election.leader().unwrap().unwrap().token, leadership.token());
    assert_eq!(leadership.proclaim(vec![0; 70_000]).unwrap_err().kind(), ErrorKind::Invalid);
    leadership.resign().unwrap();
    assert_eq!(observer.next_timeout(secs(20)).unwrap(), Some(None));
    drop(election.campaign("two").unwrap());
}

fn several(keeper: &Keeper) {
    let both = keeper.multi_lock(["b", "a"]).unwrap();
    let guard = both.lock().unwrap();
    assert_eq!(guard.guards().len(), 2);
    assert!(both.try_lock().unwrap().is_none());
    assert_eq!(guard.while_held(|| 7).unwrap(), 7);
    guard.release().unwrap();
    let mixed = keeper.multi().read("a").permits("c", 1, 2).lock("b").build().unwrap();
    let guard = mixed.attempt().wait(secs(20)).lock().unwrap();
    let modes: Vec<_> = guard.guards().iter().map(|guard| guard.mode()).collect();
    assert_eq!(modes, [Mode::Shared, Mode::Exclusive, Mode::Permits(1)]);
    assert_eq!(mixed.names().count(), 3);
    assert_eq!(keeper.multi().build().unwrap_err().kind(), ErrorKind::Invalid);
}

fn look(keeper: &Keeper) {
    let mut watch = keeper.watch("looked-at").unwrap();
    assert!(!watch.changed().unwrap().is_held());
    assert!(watch.changed_timeout(millis(20)).unwrap().is_none());
    // On a file the holder learns of a request with its next renewal: every second.
    let guard = keeper.mutex("looked-at").unwrap().ttl(secs(3)).lock().unwrap();
    assert!(watch.changed_timeout(secs(20)).unwrap().unwrap().is_held());
    let admin = keeper.admin().unwrap();
    assert_eq!(admin.list("looked", 10).unwrap().len(), 1);
    let requested = guard.release_requested();
    assert!(requested.wait_timeout(millis(20)).unwrap().is_none());
    assert!(admin.request_release("looked-at", "a test").unwrap());
    let request =
        requested.wait_timeout(secs(20)).unwrap().expect("the memory store tells at once");
    assert_eq!((request.name.as_str(), &*request.reason), ("looked-at", "a test"));
    assert!(!admin.request_release("nobody's", "a test").unwrap());
    assert!(
        admin.break_lock("looked-at", Target::Token(guard.token()), "test", Break::Now).unwrap()
    );
    assert!(!watch.changed().unwrap().is_held());
}

fn detach(keeper: &Keeper) {
    let mutex = keeper.mutex("n").unwrap();
    let handle: Handle = mutex.attempt().wait(secs(20)).detached(secs(60)).lock().unwrap();
    let guard = keeper.adopt(handle.clone()).unwrap();
    guard.renew_once().unwrap();
    drop(guard);
    assert!(mutex.try_lock().unwrap().is_none(), "dropping what was adopted leaves it");
    keeper.adopt(handle).unwrap().release().unwrap();
}

#[test]
fn everything_works_outside_a_runtime() {
    tour();
}

#[test]
fn everything_works_on_a_runtime_of_one_thread() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tour();
        tokio::spawn(async { tour() }).await.unwrap();
    });
}

#[test]
fn everything_works_on_a_worker_of_a_runtime_of_many_threads() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(async { tour() }).await.unwrap() });
}

#[test]
fn everything_works_on_a_thread_of_a_runtime_that_is_for_blocking() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::task::spawn_blocking(tour).await.unwrap() });
}

#[test]
fn everything_works_in_a_runtime_without_timers_and_sockets() {
    Builder::new_current_thread().build().unwrap().block_on(async { tour() });
}

/// The threads share a counter. Each thread reads and writes it in two steps.
#[test]
fn no_increment_of_many_threads_is_lost() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 15;
    let folder = TempDir::new().unwrap();
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let (shared, counter) = (connect(&url).unwrap(), AtomicU64::new(0));
    thread::scope(|threads| {
        for n in 0..THREADS {
            let keeper = if n % 2 == 0 { shared.clone() } else { connect(&url).unwrap() };
            let counter = &counter;
            threads.spawn(move || {
                for _ in 0..ROUNDS {
                    let guard = keeper.mutex("counter").unwrap().lock().unwrap();
                    let read = counter.load(Ordering::Relaxed);
                    thread::yield_now();
                    counter.store(read + 1, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), THREADS * ROUNDS);
}

/// Two programs use one store, and one of them is async.
#[test]
fn threads_and_tasks_exclude_each_other() {
    let store = MemoryStore::new();
    let blocking = Keeper::builder(store.clone()).connect().unwrap();
    let guard = blocking.mutex("n").unwrap().lock().unwrap();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let tasks = lockkeeper::Keeper::builder(store).connect().await.unwrap();
        let mutex = tasks.mutex("n").unwrap();
        assert!(mutex.try_lock().await.unwrap().is_none());
        drop(guard);
        let guard = mutex.lock().wait(secs(20)).await.unwrap();
        assert!(blocking.mutex("n").unwrap().try_lock().unwrap().is_none());
        guard.release().await.unwrap();
    });
}

/// The async part of a program opens the store.
#[test]
fn a_store_that_is_open_already_can_be_used() {
    let folder = TempDir::new().unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let store = runtime.block_on(FileStore::new(folder.path().join("locks.db")).open()).unwrap();
    drop(runtime);
    let keeper = Keeper::builder(store).prefix("app/").owner("me").connect().unwrap();
    let guard = keeper.mutex("n").unwrap().lock().unwrap();
    assert_eq!((guard.name().as_str(), guard.full_name().as_str()), ("n", "app/n"));
    assert_eq!(keeper.inspect("n").unwrap().holders[0].owner, "me");
}
