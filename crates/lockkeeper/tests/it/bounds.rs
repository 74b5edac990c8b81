//! The bounds on which users rely when they move guards and futures between tasks.

use std::future::IntoFuture;

use lockkeeper::blocking;
use lockkeeper::fence::FenceGate;
use lockkeeper::{
    Acquire, Acquiring, Admin, Election, Error, FencingToken, Guard, Handle, Keeper, KeeperBuilder,
    Leadership, LockName, LockWatch, Lost, MultiBuilder, MultiGuard, MultiLock, Mutex,
    NotConverted, Observer, Owner, ReentrantMutex, Result, RwLock, Secret, Semaphore, Sequencer,
    SessionWatch,
};

fn send_sync_static<T: Send + Sync + 'static>() {}
fn sync_static<T: Sync + 'static>() {}
fn send_static<T: Send + 'static>(_: &T) {}
fn send<T: Send>(_: &T) {}
fn unpin_clone<T: Unpin + Clone>() {}

/// `stays` does not compile for a type that is `Send`, since two traits would apply.
trait NotSend<How> {
    fn stays() {}
}

struct CanBeSent;
impl<T> NotSend<()> for T {}
impl<T: Send> NotSend<CanBeSent> for T {}

#[test]
fn types_can_be_shared_and_moved_between_threads() {
    send_sync_static::<Keeper>();
    send_sync_static::<Mutex>();
    send_sync_static::<Guard>();
    send_sync_static::<MultiLock>();
    send_sync_static::<RwLock>();
    send_sync_static::<Semaphore>();
    send_sync_static::<ReentrantMutex>();
    send_sync_static::<Election>();
    send_sync_static::<Leadership>();
    send_sync_static::<Observer>();
    send_sync_static::<NotConverted>();
    send_sync_static::<MultiBuilder>();
    send_sync_static::<Handle>();
    send_sync_static::<MultiGuard>();
    send_sync_static::<Lost>();
    send_sync_static::<Admin>();
    send_sync_static::<SessionWatch>();
    send_sync_static::<LockWatch>();
    send_sync_static::<Error>();
    send_sync_static::<LockName>();
    send_sync_static::<FencingToken>();
    send_sync_static::<Sequencer>();
    send_sync_static::<FenceGate>();
    send_sync_static::<Owner>();
    send_sync_static::<Secret>();
    unpin_clone::<Lost>();
}

#[test]
fn types_without_async_can_be_shared_and_moved_between_threads() {
    send_sync_static::<blocking::Keeper>();
    send_sync_static::<blocking::KeeperBuilder>();
    send_sync_static::<blocking::Mutex>();
    send_sync_static::<blocking::Attempt<'static, blocking::Mutex>>();
    send_sync_static::<blocking::Attempt<'static, blocking::Mutex, Handle>>();
    send_sync_static::<blocking::Guard>();
    send_sync_static::<blocking::RwLock>();
    send_sync_static::<blocking::Semaphore>();
    send_sync_static::<blocking::ReentrantMutex>();
    sync_static::<blocking::ReentrantGuard>();
    <blocking::ReentrantGuard as NotSend<_>>::stays();
    send_sync_static::<NotConverted<blocking::Guard>>();
    send_sync_static::<blocking::MultiBuilder>();
    send_sync_static::<blocking::MultiLock>();
    send_sync_static::<blocking::MultiGuard>();
    send_sync_static::<blocking::Election>();
    send_sync_static::<blocking::Leadership>();
    send_sync_static::<blocking::Observer>();
    send_sync_static::<blocking::Lost>();
    send_sync_static::<blocking::Admin>();
    send_sync_static::<blocking::SessionWatch>();
    send_sync_static::<blocking::LockWatch>();
}

#[tokio::test]
async fn futures_can_be_spawned() {
    fn acquiring(future: Acquiring<Guard>) -> Acquiring<Guard> {
        send_static(&future);
        future
    }
    let keeper = Keeper::memory();
    let mutex = keeper.mutex("n").unwrap();
    let lock: Acquire<Guard> = mutex.lock();
    send_static(&lock);
    let guard = acquiring(lock.into_future()).await.unwrap();
    let scope = guard.scope(async { Ok::<_, Error>(()) });
    send(&scope);
    drop(scope);
    send(&guard.while_held(async {}));
    let connect = KeeperBuilder::connect(Keeper::builder(lockkeeper::MemoryStore::new()));
    send_static(&connect);
    send(&keeper.inspect("n"));
    send(&keeper.watch("n").unwrap().changed());
    send_static(&keeper.clone().shutdown(std::time::Duration::ZERO));
    let rw_lock = keeper.rw_lock("rw").unwrap();
    let upgrade = rw_lock.read().await.unwrap().try_upgrade();
    send_static(&upgrade);
    drop(upgrade);
    let downgrade = rw_lock.write().await.unwrap().downgrade();
    send_static(&downgrade);
    drop(downgrade);
    send(&keeper.election("e").unwrap().observe().next());
    let release = guard.release();
    send_static(&release);
    release.await.unwrap();
    let detached: Acquire<Handle> = mutex.lock().detached(std::time::Duration::from_secs(9));
    send_static(&detached);
    let adopted = keeper.adopt(detached.await.unwrap()).unwrap();
    send(&adopted.renew_once());
    adopted.release().await.unwrap();
    let lock: Acquire<MultiGuard> = keeper.multi_lock(["a", "b"]).unwrap().lock();
    send_static(&lock);
    let guard = lock.await.unwrap();
    let scope = guard.scope(async { Ok::<_, Error>(()) });
    send(&scope);
    drop(scope);
    send(&guard.while_held(async {}));
    let release = guard.release();
    send_static(&release);
    release.await.unwrap();
}

#[tokio::test]
async fn a_guards_scope_can_be_spawned_with_the_guard() {
    let keeper = Keeper::memory();
    let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
    let task = tokio::spawn(async move {
        let done = guard.while_held(async { 1 }).await;
        guard.release().await?;
        done
    });
    let result: Result<i32> = task.await.unwrap();
    assert_eq!(result.unwrap(), 1);
}
