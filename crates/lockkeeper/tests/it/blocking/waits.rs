//! Threads that wait, and the events that end a wait.

use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use lockkeeper::blocking::Keeper;
use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, Event, LostReason, MemoryStore, Owner};

use super::{test_client, until};
use crate::engine::spy::{Do, millis, secs};

fn waiters(keeper: &Keeper) -> usize {
    keeper.inspect("n").unwrap().waiters.len()
}

#[test]
fn a_shutdown_from_another_thread_ends_every_wait() {
    let store = MemoryStore::new();
    let other = Keeper::builder(store.clone()).connect().unwrap();
    let keeper = Keeper::builder(store).connect().unwrap();
    let guard = other.mutex("n").unwrap().lock().unwrap();
    let mutex = keeper.mutex("n").unwrap();
    let (mut watch, mut session) = (keeper.watch("n").unwrap(), keeper.session());
    watch.changed().unwrap();
    thread::scope(|threads| {
        let locking = threads.spawn(|| mutex.lock().map(drop));
        let behind_it = threads.spawn(|| mutex.lock().map(drop));
        until(|| waiters(&other) == 1);
        watch.changed().unwrap();
        let watching = threads.spawn(|| watch.changed());
        keeper.shutdown(secs(20)).unwrap();
        for waited in [locking, behind_it] {
            assert_eq!(waited.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        }
        // The watch may report that the others left the line before it reports that the keeper is
        // gone.
        let watched = watching.join().unwrap();
        assert!(
            matches!(&watched, Err(e) if e.kind() == ErrorKind::Closed)
                || watched.unwrap().waiters.is_empty()
        );
    });
    assert_eq!(mutex.try_lock().unwrap_err().kind(), ErrorKind::Closed);
    drop((mutex, watch));
    assert_eq!(session.changed().unwrap(), None, "the keeper is gone");
    guard.release().unwrap();
}

#[test]
fn a_limit_ends_a_wait_and_leaves_the_line() {
    let keeper = Keeper::memory();
    let mutex = keeper.mutex("n").unwrap();
    let guard = mutex.lock().unwrap();
    assert_eq!(mutex.attempt().wait(millis(50)).lock().unwrap_err().kind(), ErrorKind::Timeout);
    assert!(mutex.attempt().wait(millis(50)).try_lock().unwrap().is_none());
    until(|| waiters(&keeper) == 0);
    drop(guard);
}

#[test]
fn an_attempt_has_settings_of_its_own() {
    let keeper = Keeper::memory();
    let (mutex, me) = (keeper.mutex("n").unwrap(), Owner::new());
    let guard =
        mutex.attempt().reason("build 4711").owner(&me).max_hold(secs(3)).unfair().lock().unwrap();
    assert_eq!(keeper.inspect("n").unwrap().holders[0].reason.as_deref(), Some("build 4711"));
    let again = mutex.attempt().owner(&me).lock().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WouldDeadlock);
    assert_eq!(guard.lost().wait().unwrap(), Some(LostReason::MaxHold));
    drop(guard);
    let guard = mutex.attempt().wait(secs(20)).lease(millis(200)).lock().unwrap();
    assert_eq!(guard.lost().wait().unwrap(), Some(LostReason::Expired), "it is not renewed");
    let refused = mutex.attempt().max_hold(millis(0)).lock().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[test]
fn a_silent_store_is_waited_for_only_up_to_the_limit() {
    let (_world, test_client, keeper) = test_client();
    test_client.spy.always(Operation::Claim, Do::Hang);
    let silent = keeper.mutex("n").unwrap().attempt().wait(millis(10)).lock().unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::Unavailable);
}

/// Otherwise the engine would wait for itself.
#[test]
fn a_callback_on_the_engines_thread_may_not_wait() {
    let (own, said) = (Arc::new(OnceLock::<Keeper>::new()), Arc::new(Mutex::new(Vec::new())));
    let (keeper, errors) = (Arc::clone(&own), Arc::clone(&said));
    let builder = Keeper::builder(MemoryStore::new()).ttl(secs(5));
    let builder = builder.on_event(move |event| {
        let (Event::Renewed { .. }, Some(keeper)) = (event, keeper.get()) else { return };
        let mut kinds = errors.lock().unwrap();
        kinds.push(keeper.inspect("n").unwrap_err().kind());
        kinds.push(keeper.mutex("m").unwrap().lock().unwrap_err().kind());
        kinds.push(keeper.session().changed().unwrap_err().kind());
        let found = lockkeeper::blocking::doctor::examine(&"memory:".parse().unwrap(), secs(5));
        assert_eq!(found[0].level, lockkeeper::doctor::Level::Fail);
    });
    let keeper = own.get_or_init(|| builder.connect().unwrap());
    let guard = keeper.mutex("n").unwrap().lock().unwrap();
    until(|| said.lock().unwrap().len() >= 3);
    guard.check().expect("it goes on being renewed");
    assert!(said.lock().unwrap().iter().all(|kind| *kind == ErrorKind::WouldDeadlock));
}

/// The event of an attempt comes on the thread of the attempt's caller.
#[test]
fn a_callback_on_a_thread_of_the_program_may_wait() {
    let (own, held) = (Arc::new(OnceLock::<Keeper>::new()), Arc::new(OnceLock::new()));
    let (keeper, seen) = (Arc::clone(&own), Arc::clone(&held));
    let builder = Keeper::builder(MemoryStore::new()).on_event(move |event| {
        if let (Event::Acquired { .. }, Some(keeper)) = (event, keeper.get()) {
            let _ = seen.set(keeper.inspect("n").unwrap().is_held());
        }
    });
    let keeper = own.get_or_init(|| builder.connect().unwrap());
    keeper.mutex("n").unwrap().lock().unwrap().release().unwrap();
    assert_eq!(held.get(), Some(&true));
}
