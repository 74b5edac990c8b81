//! An engine on a thread of its own. A program that blocks its own runtime does not affect its
//! locks.

use std::future::{Future, IntoFuture, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockkeeper::layer::{Chaos, Faults, Operation};
use lockkeeper::store::{Evict, Store, Target};
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, FileStore, Keeper, LostReason, MemoryStore};
use tempfile::TempDir;

use crate::engine::spy::{Do, World, millis, secs};

/// A ttl for which a pause of the machine for a second does not matter.
const TTL: Duration = Duration::from_secs(4);

/// Runs a program on one thread.
fn program<T>(main: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(main)
}

/// Blocks for longer than any lease.
fn block() {
    std::thread::sleep(TTL + secs(1));
}

async fn keeper(store: &Arc<dyn Store>) -> Keeper {
    Keeper::builder(Arc::clone(store)).ttl(TTL).dedicated_thread().connect().await.unwrap()
}

/// Runs the same test on each store. The folder is the folder of the file store.
async fn on_each_store(test: impl AsyncFn(Arc<dyn Store>)) {
    let folder = TempDir::new().unwrap();
    test(Arc::new(MemoryStore::new())).await;
    test(Arc::new(FileStore::new(folder.path().join("locks.db")).open().await.unwrap())).await;
}

/// The numbers of holders and of waiters in the store.
async fn line(store: &Arc<dyn Store>) -> (usize, usize) {
    let entries = store.line(&"n".parse().unwrap()).await.unwrap().entries;
    let holders = entries.iter().filter(|entry| entry.granted).count();
    (holders, entries.len() - holders)
}

/// Polls a future once, as a runtime does before it is blocked.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn a_lock_is_kept_while_the_runtime_is_blocked() {
    program(on_each_store(async |store| {
        let keeper = keeper(&store).await;
        let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
        block();
        guard.check().expect("it was renewed meanwhile");
        assert!(!guard.remaining().is_zero());
        assert_eq!(line(&store).await, (1, 0));
        let scoped = guard.while_held(async { block() }).await;
        scoped.expect("it was renewed meanwhile");
        guard.release().await.unwrap();
        assert_eq!(line(&store).await, (0, 0));
        keeper.shutdown(secs(5)).await.unwrap();
    }));
}

#[test]
fn a_waiter_gets_and_keeps_the_lock_while_the_runtime_is_blocked() {
    program(on_each_store(async |store| {
        let (holder, waiter) = (keeper(&store).await, keeper(&store).await);
        let guard = holder.mutex("n").unwrap().lock().await.unwrap();
        let mut waiting = waiter.mutex("n").unwrap().lock().into_future();
        assert!(poll_once(&mut waiting).await.is_none());
        block();
        assert_eq!(line(&store).await, (1, 1), "its place was renewed");
        drop(guard);
        block();
        assert_eq!(line(&store).await, (1, 0), "it was granted and renewed");
        let guard = waiting.await.unwrap();
        guard.check().unwrap();
        guard.release().await.unwrap();
    }));
}

#[test]
fn a_guard_that_is_dropped_is_released_while_the_runtime_is_blocked() {
    program(on_each_store(async |store| {
        let keeper = keeper(&store).await;
        drop(keeper.mutex("n").unwrap().lock().await.unwrap());
        let other = Arc::clone(&store);
        let free = std::thread::spawn(move || {
            program(async {
                while line(&other).await != (0, 0) {
                    tokio::task::yield_now().await;
                }
            });
        });
        free.join().unwrap();
    }));
}

/// The store loses the first answers, so the release needs many polls and timers.
#[test]
fn a_release_that_was_begun_goes_on_while_the_runtime_is_blocked() {
    program(async {
        let world = World::real();
        let test_client =
            world.test_client_with(|builder| builder.ttl(TTL).dedicated_thread()).await;
        let guard = test_client.mutex("n").lock().await.unwrap();
        for _ in 0..2 {
            test_client.spy.once(Operation::Withdraw, Do::Fail(ErrorKind::Unavailable));
        }
        let mut release = Box::pin(guard.release());
        assert!(poll_once(&mut release).await.is_none());
        block();
        assert_eq!(world.line("n").await.len(), 0, "it was released without its caller");
        release.await.unwrap();
    });
}

/// A request that is held up also holds up all later requests of its connection. So the engine must
/// go on polling such a request.
#[test]
fn a_call_whose_caller_is_blocked_holds_up_no_renewal() {
    program(async {
        let line = Arc::new(Chaos::new(Arc::new(MemoryStore::new()), Clock::boot()));
        let keeper =
            Keeper::builder(Arc::clone(&line)).ttl(TTL).dedicated_thread().connect().await.unwrap();
        let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
        line.set(Faults::none().slow(1000, millis(50)).only(&[Operation::Line]));
        let mut looking = Box::pin(keeper.inspect("n"));
        while poll_once(&mut looking).await.is_some() {
            // The delay is random, and may be zero.
            looking = Box::pin(keeper.inspect("n"));
        }
        block();
        guard.check().expect("the renewals were not held up");
        assert!(looking.await.unwrap().is_held());
    });
}

#[test]
fn a_loss_is_known_after_the_runtime_was_blocked() {
    program(on_each_store(async |store| {
        let keeper = keeper(&store).await;
        let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
        let token = Target::Token(guard.token().get());
        store
            .admin()
            .unwrap()
            .evict(guard.name(), &token, Evict::Mark, "op", "stuck")
            .await
            .unwrap();
        block();
        let mut lost = guard.lost();
        assert!(matches!(poll_once(&mut lost).await, Some(LostReason::Broken { .. })));
        assert!(matches!(
            guard.check().unwrap_err().lost_reason(),
            Some(LostReason::Broken { .. })
        ));
        let never = guard.while_held(async { panic!("nothing runs under a lock that is lost") });
        assert_eq!(never.await.map(|(): ()| ()).unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }));
}

/// The thread sends its last requests to the end, even when no keeper is left.
#[test]
fn the_end_of_a_session_is_sent_although_the_keeper_is_gone() {
    program(async {
        let world = World::real();
        let test_client =
            world.test_client_with(|builder| builder.ttl(secs(60)).dedicated_thread()).await;
        let guard = test_client.mutex("n").lock().await.unwrap();
        // Only the end of the session frees the lock.
        test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Closed));
        test_client.spy.always(Operation::Close, Do::Slow(millis(100)));
        drop(guard);
        drop(test_client);
        let start = world.now();
        while !world.line("n").await.is_empty() {
            assert!(world.now().saturating_since(start) < secs(10), "the session was not closed");
            tokio::time::sleep(millis(10)).await;
        }
    });
}

#[test]
fn virtual_time_is_refused() {
    program(async {
        let builder = Keeper::builder(MemoryStore::new()).clock(Clock::tokio()).dedicated_thread();
        assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Invalid);
    });
}
