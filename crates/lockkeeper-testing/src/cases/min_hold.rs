//! The minimum hold in the public interface.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::layer::{Faults, Operation};
use lockkeeper::{Break, Effect, ErrorKind, Keeper, LockName, Owner, Target};

const LONG: Duration = Duration::from_secs(3600);

/// No client gets the lock, and all clients see why.
async fn is_kept(case: &Case, name: &LockName) {
    let other = case.keeper().await;
    assert!(other.mutex(name).unwrap().try_lock().await.unwrap().is_none());
    let info = other.inspect(name).await.unwrap();
    assert!(info.holders.iter().all(|holder| holder.kept) && info.is_held(), "{info:?}");
}

/// Waits until no client has the lock.
async fn until_released(case: &Case, name: &LockName) {
    let other = case.keeper().await;
    let is_released =
        async || other.inspect(name).await.unwrap().holders.iter().all(|holder| holder.kept);
    case.until("it is released", is_released).await;
}

/// A release ends the hold, and leaves the rest of the minimum hold to the store: the lock is busy
/// for all clients.
pub async fn a_release_leaves_the_rest_to_the_store(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("m"));
    let mutex = keeper.mutex(&name).unwrap();
    let guard = mutex.lock().min_hold(LONG).await.unwrap();
    let sequencer = guard.sequencer();
    assert!(keeper.check_sequencer(&sequencer).await.unwrap());
    guard.release().await.unwrap();
    assert!(!keeper.check_sequencer(&sequencer).await.unwrap());
    assert!(mutex.try_lock().await.unwrap().is_none());
    is_kept(case, &name).await;
}

/// A dropped guard and the shutdown of a keeper leave the rest of a long and of a short minimum
/// hold too.
pub async fn a_drop_and_a_shutdown_leave_it(case: &Case) {
    for (name, hold) in [("long", LONG), ("short", Ttls::long().ttl / 2)] {
        for how in ["drop", "drop and shut down", "shut down"] {
            let (keeper, name) = (case.keeper().await, case.name(&format!("{name}/{how}")));
            let guard = keeper.mutex(&name).unwrap().lock().min_hold(hold).await.unwrap();
            let guard = (how == "shut down").then_some(guard);
            if how != "drop" {
                keeper.shutdown(Duration::from_secs(10)).await.unwrap();
            }
            until_released(case, &name).await;
            is_kept(case, &name).await;
            drop(guard);
        }
    }
}

/// A lock that was held for longer than its minimum hold is released at once.
pub async fn it_costs_nothing_once_it_is_over(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("m"));
    let guard =
        keeper.mutex(&name).unwrap().lock().min_hold(Duration::from_millis(10)).await.unwrap();
    case.pass(Duration::from_millis(50)).await;
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// An attempt that gave up in line leaves no minimum hold behind.
pub async fn who_gives_up_keeps_nothing(case: &Case) {
    let (holder, keeper, name) = (case.keeper().await, case.keeper().await, case.name("m"));
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let waiting =
        keeper.mutex(&name).unwrap().lock().min_hold(LONG).wait(Duration::from_millis(100));
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Timeout);
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// A task that needs another minimum hold does not inherit a place in line.
pub async fn each_task_has_its_own(case: &Case) {
    let (holder, keeper, name) = (case.keeper().await, case.keeper().await, case.name("m"));
    let (held, mutex) =
        (holder.mutex(&name).unwrap().lock().await.unwrap(), keeper.mutex(&name).unwrap());
    let gives_up = mutex.lock().min_hold(LONG).wait(Duration::from_millis(300));
    let gives_up = tokio::spawn(gives_up.into_future());
    case.until_waiting(&holder, &name, 1).await;
    let stays = tokio::spawn(mutex.lock().into_future());
    assert_eq!(gives_up.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    held.release().await.unwrap();
    stays.await.unwrap().unwrap().release().await.unwrap();
    case.is_free(&name).await;
}

/// A multi-lock keeps none of its locks unless it held all of them.
pub async fn a_multi_lock_that_gets_not_all_keeps_none(case: &Case) {
    let (holder, keeper) = (case.keeper().await, case.keeper().await);
    let [a, b] = ["a", "b"].map(|name| case.name(name));
    let held = holder.mutex(&b).unwrap().lock().await.unwrap();
    let both = keeper.multi_lock([&a, &b]).unwrap();
    assert!(both.try_lock().min_hold(LONG).await.unwrap().is_none());
    case.is_free(&a).await;
    held.release().await.unwrap();
    both.lock().min_hold(LONG).await.unwrap().release().await.unwrap();
    is_kept(case, &a).await;
    is_kept(case, &b).await;
}

/// If the owner already holds the lock, the minimum hold counts from the owner's further entry.
pub async fn an_entry_of_its_owner_has_it(case: &Case) {
    let (keeper, name, owner) = (case.keeper().await, case.name("m"), Owner::new());
    let mutex = keeper.reentrant_mutex(&name).unwrap();
    let first = mutex.lock(&owner).await.unwrap();
    let second = mutex.lock(&owner).min_hold(LONG).await.unwrap();
    second.release().await.unwrap();
    first.release().await.unwrap();
    is_kept(case, &name).await;
}

/// An upgrade and a downgrade keep the minimum hold that the first grant began.
pub async fn a_conversion_keeps_it(case: &Case) {
    let (keeper, other, name) = (case.keeper().await, case.keeper().await, case.name("rw"));
    let lock = keeper.rw_lock(&name).unwrap();
    let writer = lock.read().min_hold(LONG).await.unwrap().try_upgrade().await.unwrap();
    writer.downgrade().await.unwrap().release().await.unwrap();
    assert!(other.rw_lock(&name).unwrap().try_write().await.unwrap().is_none());
    other.rw_lock(&name).unwrap().try_read().await.unwrap().unwrap().release().await.unwrap();
}

/// An attempt that lost the lock while the store keeps the lock for it gets an error. The lock is
/// not busy for it, since only the attempt itself keeps the lock from others.
pub async fn an_attempt_never_waits_for_what_it_has_kept_itself(case: &Case) {
    let late = case.short().ttl * 3 / 2;
    for waits in [false, true] {
        let test_client = case.test_client(case.short()).await;
        let (name, line) = (case.name(if waits { "lock" } else { "try" }), &test_client.line);
        line.set(Faults::none().delayed(Operation::Amend, late).delayed(Operation::Renew, late));
        let mutex = test_client.mutex(&name);
        let error = if waits {
            mutex.lock().wait(late * 4).min_hold(LONG).await.unwrap_err()
        } else {
            mutex.try_lock().min_hold(LONG).await.unwrap_err()
        };
        line.quiet();
        assert_ne!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
        until_released(case, &name).await;
        is_kept(case, &name).await;
    }
}

/// A multi-lock that loses one part does not wait for another part that it has kept itself.
pub async fn a_multi_lock_never_waits_for_a_part_that_it_has_kept(case: &Case) {
    let (test_client, other) = (case.test_client(Ttls::long()).await, case.keeper().await);
    let [a, b] = ["a", "b"].map(|name| case.name(name));
    test_client.line.delay(Operation::Amend, case.short().ttl);
    let both = test_client.keeper.multi_lock([&a, &b]).unwrap();
    let attempt = tokio::spawn(both.lock().wait(case.short().ttl * 8).min_hold(LONG).into_future());
    case.until("both are held", async || other.inspect(&b).await.unwrap().is_held()).await;
    let token = other.inspect(&b).await.unwrap().holders[0].token.unwrap();
    let admin = other.admin().unwrap();
    assert!(admin.break_lock(&b, Target::Token(token), "a test", Break::Now).await.unwrap());
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Lost, Effect::Unknown), "{error:?}");
    assert!(error.to_string().contains(&format!("{:?} from everybody", a.as_str())), "{error}");
    until_released(case, &a).await;
    is_kept(case, &a).await;
    case.is_free(&b).await;
}

/// An attempt that is dropped before the answer to its claim comes leaves nothing behind.
pub async fn who_is_dropped_before_its_answer_keeps_nothing(case: &Case) {
    let (test_client, other, name) =
        (case.test_client(Ttls::long()).await, case.keeper().await, case.name("m"));
    test_client.line.delay(Operation::Claim, case.short().ttl);
    let attempt = tokio::spawn(test_client.mutex(&name).lock().min_hold(LONG).into_future());
    case.until("it is granted", async || other.inspect(&name).await.unwrap().is_held()).await;
    attempt.abort();
    assert!(attempt.await.unwrap_err().is_cancelled());
    case.is_free(&name).await;
}

/// A leader that has resigned no longer leads, and no candidate leads before the minimum hold is
/// over.
pub async fn nobody_leads_while_it_lasts(case: &Case) {
    let (keeper, other, name) = (case.keeper().await, case.keeper().await, case.name("e"));
    let election = keeper.election(&name).unwrap();
    election.campaign("one").min_hold(LONG).await.unwrap().resign().await.unwrap();
    assert!(election.leader().await.unwrap().is_none());
    let next =
        other.election(&name).unwrap().campaign("two").wait(Duration::from_millis(100)).await;
    assert_eq!(next.unwrap_err().kind(), ErrorKind::Timeout);
}

/// A minimum hold that the store cannot keep is refused before a request is sent. A store without
/// minimum holds refuses every one.
pub async fn what_the_store_cannot_keep_is_refused(case: &Case) {
    let test_client = case.test_client(Ttls::long()).await;
    let keeper: &Keeper = &test_client.keeper;
    let (name, most) = (case.name("m"), keeper.capabilities().min_hold_max);
    let refused = keeper
        .mutex(&name)
        .unwrap()
        .try_lock()
        .min_hold(most + Duration::from_millis(1))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("min_hold"), "{refused}");
    case.is_free(&name).await;
}
