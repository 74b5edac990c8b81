//! The mutex that a thread can lock again.

use std::thread;

use lockkeeper::blocking::{Keeper, ReentrantGuard, ReentrantMutex};
use lockkeeper::layer::Operation;
use lockkeeper::{Error, ErrorKind, LostReason, Owner};

use super::{test_client, until};
use crate::engine::spy::{millis, secs};

const DEPTH: usize = 8;

/// Locks the mutex again while the caller holds it.
fn descend(mutex: &ReentrantMutex, depth: usize) {
    let guard = mutex.lock().unwrap();
    if depth > 1 {
        descend(mutex, depth - 1);
    }
    guard.check().unwrap();
}

#[test]
fn a_thread_that_locks_again_asks_the_store_nothing() {
    let (_world, test_client, keeper) = test_client();
    let mutex = keeper.reentrant_mutex("n").unwrap();
    descend(&mutex, DEPTH);
    until(|| !keeper.inspect("n").unwrap().is_held());
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), 1);
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 1);

    let guards: Vec<ReentrantGuard> = (0..DEPTH).map(|_| mutex.lock().unwrap()).collect();
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
    for guard in guards {
        assert!(keeper.inspect("n").unwrap().is_held(), "one guard is left at least");
        guard.release().unwrap();
    }
    assert!(!keeper.inspect("n").unwrap().is_held());
    assert_eq!(test_client.spy.asked(Operation::Claim).len(), 2);
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 2);
}

#[test]
fn another_thread_waits_for_the_last_of_the_guards() {
    let keeper = Keeper::memory();
    let mutex = keeper.reentrant_mutex("n").unwrap();
    let (outer, inner) = (mutex.lock().unwrap(), mutex.lock().unwrap());
    let token = inner.token();
    thread::scope(|threads| {
        let refused = threads.spawn(|| {
            assert!(mutex.try_lock().unwrap().is_none());
            mutex.attempt().wait(millis(20)).lock().map(drop)
        });
        assert_eq!(refused.join().unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    });
    until(|| keeper.inspect("n").unwrap().waiters.is_empty());
    thread::scope(|threads| {
        let other = threads.spawn(|| mutex.lock().unwrap().token());
        until(|| keeper.inspect("n").unwrap().waiters.len() == 1);
        outer.release().unwrap();
        assert!(mutex.try_lock().unwrap().is_some(), "it is still the lock of this thread");
        assert_eq!(keeper.inspect("n").unwrap().holders[0].token, Some(token));
        inner.release().unwrap();
        assert!(other.join().unwrap() > token);
    });
}

/// The system may give the number of the ended thread to any later thread.
#[test]
fn no_thread_inherits_what_another_had_when_it_ended() {
    let keeper = Keeper::memory();
    let mutex = keeper.reentrant_mutex("n").unwrap();
    let first = mutex.clone();
    thread::spawn(move || std::mem::forget(first.lock().unwrap())).join().unwrap();
    for _ in 0..20 {
        let next = mutex.clone();
        assert!(thread::spawn(move || next.try_lock().unwrap().is_none()).join().unwrap());
    }
    let again = keeper.clone();
    keeper.shutdown(secs(20)).unwrap();
    assert_eq!(again.reentrant_mutex("n").unwrap().lock().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_owner_is_the_thread_whatever_is_set() {
    let keeper = Keeper::memory();
    let (mutex, shared) = (keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let guard = mutex.attempt().owner(&shared).reason("build 4711").lock().unwrap();
    assert!(mutex.attempt().owner(&Owner::new()).try_lock().unwrap().is_some());
    thread::scope(|threads| {
        let other = threads.spawn(|| mutex.attempt().owner(&shared).try_lock().unwrap().is_none());
        assert!(other.join().unwrap());
    });
    assert_eq!(keeper.inspect("n").unwrap().holders[0].reason.as_deref(), Some("build 4711"));
    guard.with(|guard| guard.check()).unwrap();
}

#[test]
fn the_guards_of_a_thread_are_lost_together() {
    let keeper = Keeper::memory();
    let mutex = keeper.reentrant_mutex("n").unwrap();
    let (outer, inner) =
        (mutex.attempt().max_hold(millis(50)).lock().unwrap(), mutex.lock().unwrap());
    assert_eq!(outer.lost().wait().unwrap(), Some(LostReason::MaxHold));
    assert_eq!(inner.with(|_| Ok::<_, Error>(())).unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(
        mutex.lock().unwrap_err().kind(),
        ErrorKind::Lost,
        "the work of the outer guard is not over"
    );
    assert_eq!(outer.release().unwrap_err().kind(), ErrorKind::Lost);
    mutex.lock().unwrap().release().unwrap();
}
