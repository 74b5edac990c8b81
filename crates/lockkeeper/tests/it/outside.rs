//! Keepers without a tokio runtime.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use lockkeeper::{ErrorKind, FileStore, Keeper};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor without tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Outside a runtime the engine has a thread of its own: locks, waits, renewals and shutdown work
/// from any executor.
#[test]
fn a_keeper_needs_no_runtime_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = block_on(FileStore::new(folder.path().join("locks.db")).open()).unwrap();
    for keeper in [Keeper::memory(), block_on(Keeper::builder(store).connect()).unwrap()] {
        let mutex = keeper.mutex("n").unwrap().ttl(Duration::from_secs(4));
        let guard = block_on(mutex.lock().into_future()).unwrap();
        let waiting = block_on(mutex.lock().wait(Duration::from_secs(5)).into_future());
        assert_eq!(waiting.unwrap_err().kind(), ErrorKind::Timeout);
        guard.check().expect("it was renewed meanwhile");
        let next = std::thread::spawn({
            let mutex = mutex.clone();
            move || block_on(mutex.lock().into_future()).unwrap().token()
        });
        let token = guard.token();
        block_on(guard.release()).unwrap();
        assert!(next.join().unwrap() > token);
        block_on(keeper.shutdown(Duration::from_secs(5))).unwrap();
    }
}

/// A guard may outlive the runtime in which its keeper was connected. Dropping the guard does not
/// panic, and the lock ends with its lease.
#[test]
fn a_guard_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (keeper, guard) = runtime.block_on(async {
        let keeper = Keeper::memory();
        let guard =
            keeper.mutex("n").unwrap().ttl(Duration::from_millis(100)).lock().await.unwrap();
        (keeper, guard)
    });
    drop(runtime);
    while guard.check().is_ok() {
        std::thread::yield_now();
    }
    drop(guard);
    drop(keeper);
}
