//! Locks and registers in a file without the runtime in which they were made.

use std::future::{Future, IntoFuture};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use lockkeeper::optimistic::{Register, Swap, Version, Write};
use lockkeeper::{FileStore, Keeper};
use tokio::runtime::{Builder, Runtime};

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

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A timer of an ended runtime panics. The panic of a drop is caught, so only a hook sees it.
#[test]
fn a_guard_of_a_lock_in_a_file_may_outlive_its_runtime() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (first, this) = (runtime(), std::thread::current().id());
    let acquire = async |name: &str, path: &Path| {
        let keeper = Keeper::builder(FileStore::new(path)).connect().await.unwrap();
        let guard = keeper.mutex(name).unwrap().lock().await.unwrap();
        (keeper, guard)
    };
    let (keeper, dropped) = first.block_on(acquire("dropped", &path));
    let released = first.block_on(keeper.mutex("released").unwrap().lock().into_future()).unwrap();
    drop(first);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == this {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
        hook(info);
    }));
    drop(dropped);
    let released = runtime().block_on(released.release()).map_err(|error| error.to_string());
    drop(keeper);
    drop(std::panic::take_hook());
    assert_eq!((PANICS.load(Ordering::SeqCst), released), (0, Ok(())));
}

#[test]
fn a_register_in_a_file_needs_no_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let store = block_on(FileStore::new(folder.path().join("locks.db")).open()).unwrap();
    let write = Write::new(Version::ABSENT, "7");
    assert_eq!(block_on(store.register().compare_and_swap("n", &write)).unwrap(), Swap::Done);
    assert_eq!(block_on(store.register().load("n")).unwrap().unwrap().value, b"7");
}
