//! Guards on threads: released, dropped, lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use lockkeeper::blocking::{Guard, Keeper};
use lockkeeper::layer::Operation;
use lockkeeper::{Break, Error, ErrorKind, LostReason, Target};
use tokio::runtime::Builder;

use super::{test_client, until};
use crate::engine::spy::{Do, millis, secs};

fn keeper() -> Keeper {
    Keeper::memory()
}

fn hold(keeper: &Keeper) -> Guard {
    keeper.mutex("n").unwrap().lock().unwrap()
}

/// Marks the lock. The holder learns of the mark with the next renewal.
fn break_it(keeper: &Keeper, guard: &Guard) {
    let how = Break::Mark;
    let broken =
        keeper.admin().unwrap().break_lock("n", Target::Token(guard.token()), "stuck", how);
    assert!(broken.unwrap());
}

fn lose(keeper: &Keeper, guard: &Guard) {
    break_it(keeper, guard);
    assert!(matches!(guard.lost().wait().unwrap(), Some(LostReason::Broken { .. })));
}

#[test]
fn another_thread_may_release_or_drop_a_guard() {
    let keeper = keeper();
    let guard = hold(&keeper);
    thread::spawn(move || guard.release().unwrap()).join().unwrap();
    let guard = hold(&keeper);
    thread::spawn(move || drop(guard)).join().unwrap();
    hold(&keeper).release().unwrap();
}

#[test]
fn dropping_a_guard_waits_for_nothing() {
    let (_world, test_client, keeper) = test_client();
    test_client.spy.always(Operation::Withdraw, Do::Hang);
    // A drop that waited would never return.
    drop(hold(&keeper));
    drop(keeper.multi_lock(["a", "b"]).unwrap().lock().unwrap());
}

#[test]
fn a_thread_that_panics_lets_go() {
    let keeper = keeper();
    let guard = hold(&keeper);
    let panicked = thread::spawn(move || {
        let _guard = guard;
        panic!("on purpose");
    });
    panicked.join().unwrap_err();
    keeper.mutex("n").unwrap().attempt().wait(secs(20)).lock().unwrap().release().unwrap();
}

/// Requests of a thread that panicked may still arrive.
#[test]
fn a_panic_leaves_the_lock_to_its_delay() {
    let keeper = keeper();
    let mutex = keeper.mutex("n").unwrap().ttl(secs(3)).lock_delay(secs(3));
    let guard = mutex.lock().unwrap();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| guard.with::<(), Error>(|_| panic!("on purpose"))));
    panicked.unwrap_err();
    assert!(keeper.inspect("n").unwrap().is_held(), "it is not given up at once");
    let start = std::time::Instant::now();
    drop(mutex.attempt().wait(secs(20)).lock().unwrap());
    assert!(start.elapsed() > secs(1), "it was free after {:?}", start.elapsed());
}

#[test]
fn a_loss_is_seen_although_the_callers_runtime_is_blocked() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let keeper = keeper();
        let guard = keeper.mutex("n").unwrap().ttl(secs(5)).lock().unwrap();
        break_it(&keeper, &guard);
        until(|| guard.check().is_err());
        assert!(matches!(
            guard.check().unwrap_err().lost_reason(),
            Some(LostReason::Broken { .. })
        ));
        assert!(guard.remaining().is_zero());
        assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost);
    });
}

#[test]
fn a_guard_is_renewed_although_the_callers_runtime_is_blocked() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let guard = keeper().mutex("n").unwrap().ttl(secs(4)).lock().unwrap();
        assert_eq!(guard.lost().wait_timeout(secs(5)).unwrap(), None);
        guard.check().unwrap();
    });
}

#[test]
fn a_wait_for_a_guards_loss_ends_with_the_guard() {
    let keeper = keeper();
    let guard = keeper.mutex("n").unwrap().attempt().lease(secs(3)).lock().unwrap();
    let (lost, early) = (guard.lost(), guard.lost());
    let waiting = thread::spawn(move || early.wait().unwrap());
    guard.release().unwrap();
    assert_eq!(waiting.join().unwrap(), None);
    thread::sleep(millis(3100));
    assert_eq!(lost.wait().unwrap(), None, "its lease is over now, which was no loss");
}

#[test]
fn a_loss_is_reported_after_the_guard_is_gone() {
    let keeper = keeper();
    let guard = keeper.mutex("n").unwrap().ttl(secs(5)).lock().unwrap();
    let lost = guard.lost();
    lose(&keeper, &guard);
    drop(guard);
    assert!(matches!(lost.wait().unwrap(), Some(LostReason::Broken { .. })));
    assert!(matches!(lost.wait_timeout(secs(9)).unwrap(), Some(LostReason::Broken { .. })));
}

#[test]
fn a_multi_lock_is_lost_with_the_first_of_its_locks() {
    let keeper = keeper();
    let guard = keeper.multi_lock(["m", "n"]).unwrap().ttl(secs(5)).lock().unwrap();
    let lost = guard.lost();
    break_it(&keeper, &guard.guards()[1]);
    assert!(matches!(lost.wait().unwrap(), Some(LostReason::Broken { .. })));
    assert_eq!(guard.check().unwrap_err().name().unwrap().as_str(), "n");
    assert!(guard.remaining().is_zero());
    let ran = std::cell::Cell::new(false);
    assert_eq!(guard.while_held(|| ran.set(true)).unwrap_err().kind(), ErrorKind::Lost);
    assert!(!ran.get(), "nothing runs under a lock that is lost");
    assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost);
    let guard = keeper.multi_lock(["m", "n"]).unwrap().lock().unwrap();
    let lost = guard.lost();
    guard.release().unwrap();
    assert_eq!(lost.wait().unwrap(), None);
}

#[test]
fn a_writer_that_becomes_a_reader_is_watched_on() {
    let keeper = keeper();
    let writer = keeper.rw_lock("n").unwrap().ttl(secs(5)).write().unwrap();
    let lost = writer.lost();
    let reader = writer.downgrade().unwrap();
    assert_eq!(lost.wait_timeout(millis(20)).unwrap(), None);
    break_it(&keeper, &reader);
    assert!(matches!(lost.wait().unwrap(), Some(LostReason::Broken { .. })));
}

#[test]
fn with_returns_what_the_closure_does_and_releases() {
    let keeper = keeper();
    assert_eq!(hold(&keeper).with(|guard| guard.check().map(|()| 7)).unwrap(), 7);
    let own: Result<(), Own> = hold(&keeper).with(|_| Err(Own::Mine));
    assert!(matches!(own, Err(Own::Mine)));
    assert!(!keeper.inspect("n").unwrap().is_held());
}

#[test]
fn with_returns_the_loss_when_the_lock_was_lost_before_its_end() {
    let keeper = keeper();
    let short = keeper.mutex("n").unwrap().ttl(secs(5));
    let mut ran = false;
    let lost = short.lock().unwrap().with(|guard| {
        lose(&keeper, guard);
        ran = true;
        Ok::<_, Own>(7)
    });
    assert!(ran, "a closure runs to its end");
    assert!(matches!(lost, Err(Own::Theirs(error)) if error.kind() == ErrorKind::Lost));
    let own = short.attempt().wait(secs(20)).lock().unwrap().with(|guard| {
        lose(&keeper, guard);
        Err::<(), _>(Own::Mine)
    });
    assert!(matches!(own, Err(Own::Mine)));
}

/// The lock covered the work.
#[test]
fn with_returns_the_value_although_the_release_fails() {
    let (_world, test_client, keeper) = test_client();
    let guard = hold(&keeper);
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Closed));
    assert_eq!(guard.with(|_| Ok::<_, Error>(7)).unwrap(), 7);
}

#[test]
fn a_release_that_fails_is_reported() {
    let (_world, test_client, keeper) = test_client();
    let guard = hold(&keeper);
    test_client.spy.always(Operation::Withdraw, Do::Fail(ErrorKind::Closed));
    assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Closed);
}

/// An error of the program's own.
#[derive(Debug)]
enum Own {
    Mine,
    Theirs(Error),
}

impl From<Error> for Own {
    fn from(error: Error) -> Self {
        Self::Theirs(error)
    }
}
