//! Several locks as one.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, LostUpdateCounter, Ttls};
use lockkeeper::{
    Break, ErrorKind, Guard, Keeper, LockName, LostReason, Mode, MultiLock, Owner, Target,
};

fn names<const N: usize>(case: &Case, names: [&str; N]) -> [LockName; N] {
    names.map(|name| case.name(name))
}

fn multi(keeper: &Keeper, names: &[LockName]) -> MultiLock {
    keeper.multi_lock(names).unwrap()
}

/// All locks are held, each once, in the order of the bytes of their names. Then all locks are
/// released.
pub async fn all_are_held_in_the_order_of_their_names(case: &Case) {
    let keeper = case.keeper().await;
    let given = names(case, ["b", "a", "é", "B", "a", "a/1"]);
    let sorted = names(case, ["B", "a", "a/1", "b", "é"]);
    let lock = multi(&keeper, &given);
    assert!(lock.names().eq(&sorted));
    for tries in [false, true] {
        let guard = if tries {
            lock.try_lock().await.unwrap().unwrap()
        } else {
            lock.lock().await.unwrap()
        };
        assert!(guard.guards().iter().map(|guard| guard.name()).eq(&sorted));
        guard.check().unwrap();
        assert!(guard.remaining() > Duration::ZERO);
        for each in guard.guards() {
            assert!(keeper.check_sequencer(&each.sequencer()).await.unwrap());
        }
        assert_eq!(guard.while_held(async { 7 }).await.unwrap(), 7);
        let released = guard.release().await;
        // A release that the network doubles finds no claim the second time.
        let was_lost = released.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost);
        assert!(
            released.is_ok() || (was_lost && !case.harness().fault_profile().is_none()),
            "{released:?}"
        );
        for name in &sorted {
            case.is_free(name).await;
        }
    }
    let none: [LockName; 0] = [];
    assert_eq!(keeper.multi_lock(none).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(keeper.multi_lock(["a", ""]).unwrap_err().kind(), ErrorKind::Invalid);
}

/// A try acquires all locks, or none.
pub async fn a_try_takes_all_or_nothing(case: &Case) {
    let (blocker, keeper) = (case.keeper().await, case.keeper().await);
    let all = names(case, ["a", "b", "c"]);
    for held in &all {
        let guard = blocker.mutex(held).unwrap().lock().await.unwrap();
        assert!(multi(&keeper, &all).try_lock().await.unwrap().is_none());
        let error = multi(&keeper, &all).lock().wait(Duration::ZERO).await.unwrap_err();
        assert_eq!((error.kind(), error.name()), (ErrorKind::Timeout, Some(held)));
        for name in all.iter().filter(|name| *name != held) {
            case.is_free(name).await;
        }
        guard.release().await.unwrap();
    }
    multi(&keeper, &all).try_lock().await.unwrap().unwrap().release().await.unwrap();
}

/// A wait that ends names the lock that was not acquired, and leaves nothing: no lock, no place in
/// line.
pub async fn a_wait_that_ends_leaves_nothing(case: &Case) {
    let (blocker, test_client) = (case.keeper().await, case.test_client(Ttls::long()).await);
    let all = names(case, ["a", "b", "c"]);
    let guard = blocker.mutex(&all[1]).unwrap().lock().await.unwrap();
    let lock = multi(&test_client.keeper, &all);
    let wait = Duration::from_millis(300);
    let error = lock.lock().wait(wait).await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Timeout, Some(&all[1])));
    assert!(lock.try_lock().wait(wait).await.unwrap().is_none());
    case.until_waiting(&blocker, &all[1], 0).await;
    guard.release().await.unwrap();
    for name in &all {
        case.is_free(name).await;
    }
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// The limit of the wait is for all locks together, not for each lock.
pub async fn one_wait_is_for_all_of_them(case: &Case) {
    let (blocker, keeper) = (case.keeper().await, case.keeper().await);
    let [a, b] = names(case, ["a", "b"]);
    let first = blocker.mutex(&a).unwrap().lock().await.unwrap();
    let _second = blocker.mutex(&b).unwrap().lock().await.unwrap();
    let start = case.now();
    let wait = Duration::from_secs(10);
    let waiting = tokio::spawn(multi(&keeper, &[a, b]).lock().wait(wait).into_future());
    case.pass(Duration::from_secs(8)).await;
    first.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    let took = case.since(start);
    assert!(took >= wait && took < Duration::from_secs(17), "{took:?}");
}

/// When one lock is lost, all locks are lost: their holder learns of it, and releases the others.
pub async fn the_loss_of_one_is_the_loss_of_all(case: &Case) {
    let (keeper, admin) =
        (case.test_client(case.short()).await.keeper, case.keeper().await.admin().unwrap());
    let all = names(case, ["a", "b", "c"]);
    let guard = multi(&keeper, &all).lock().await.unwrap();
    let (lost, clone) = (guard.lost(), guard.lost().clone());
    let target = Target::Token(guard.guards()[1].token());
    assert!(admin.break_lock(&all[1], target, "stuck", Break::Now).await.unwrap());
    let scope = guard.while_held(std::future::pending::<()>()).await.unwrap_err();
    let error = guard.check().unwrap_err();
    for error in [&scope, &error] {
        assert_eq!((error.kind(), error.name()), (ErrorKind::Lost, Some(&all[1])));
    }
    assert_eq!(guard.remaining(), Duration::ZERO);
    let reason = lost.await;
    assert_eq!(reason, clone.await);
    assert!(guard.guards()[0].check().is_ok() && guard.guards()[2].check().is_ok());
    let error = guard.release().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name(), error.lost_reason()),
        (ErrorKind::Lost, Some(&all[1]), Some(&reason))
    );
    for name in &all {
        case.is_free(name).await;
    }
}

/// A lock that is lost while the attempt waits for others is acquired again, so in the end all are
/// held.
pub async fn what_is_lost_while_others_are_waited_for_is_acquired_again(case: &Case) {
    let (blocker, test_client) = (case.keeper().await, case.test_client(case.short()).await);
    let [a, b] = names(case, ["a", "b"]);
    let held = blocker.mutex(&b).unwrap().lock().await.unwrap();
    let waiting =
        tokio::spawn(multi(&test_client.keeper, &[a.clone(), b.clone()]).lock().into_future());
    case.until_waiting(&blocker, &b, 1).await;
    let first = blocker.inspect(&a).await.unwrap().holders.remove(0);
    let admin = blocker.admin().unwrap();
    assert!(admin.break_lock(&a, Target::IdHash(first.id), "stuck", Break::Now).await.unwrap());
    let other = blocker.mutex(&a).unwrap().lock().await.unwrap();
    // The attempt learns of the loss within this time.
    case.pass(case.short().ttl).await;
    held.release().await.unwrap();
    case.until_waiting(&blocker, &a, 1).await;
    assert!(!waiting.is_finished());
    let between = other.token();
    other.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    guard.check().unwrap();
    assert!(guard.guards()[0].token() > between);
    guard.release().await.unwrap();
    case.is_free(&a).await;
    case.is_free(&b).await;
}

/// Two attempts that name the same locks in different orders never wait for each other, and exclude
/// each other on each lock.
pub async fn crossing_names_never_wait_for_each_other(case: &Case) {
    let sets = [&["a", "b", "c"][..], &["c", "b", "a"], &["b", "c"], &["c", "a"]];
    let (counters, mut tasks) = (
        [LostUpdateCounter::default(), LostUpdateCounter::default(), LostUpdateCounter::default()],
        Vec::new(),
    );
    for set in sets {
        let lock = multi(
            &case.keeper().await,
            &set.iter().map(|name| case.name(name)).collect::<Vec<_>>(),
        );
        for _ in 0..2 {
            let (lock, counters) = (lock.clone(), counters.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..4 {
                    let held = lock.lock().await.unwrap();
                    for guard in held.guards() {
                        let name = guard.name().as_str();
                        let which =
                            usize::from(name.ends_with('b')) + 2 * usize::from(name.ends_with('c'));
                        counters[which].add(guard).await;
                    }
                    held.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counters.map(|counter| counter.total()), [24, 24, 32]);
}

/// A fixed lease is the same for all locks, and begins when the last one is held.
pub async fn a_fixed_lease_begins_when_all_are_held(case: &Case) {
    let (blocker, test_client) = (case.keeper().await, case.test_client(Ttls::long()).await);
    let [a, b] = names(case, ["a", "b"]);
    let held = blocker.mutex(&b).unwrap().lock().await.unwrap();
    let lease = case.short().ttl;
    let lock = multi(&test_client.keeper, &[a.clone(), b.clone()]);
    let waiting = tokio::spawn(lock.lock().lease(lease).into_future());
    case.until_waiting(&blocker, &b, 1).await;
    let early = blocker.inspect(&a).await.unwrap().holders[0].token;
    case.pass(lease * 3).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(Some(guard.guards()[0].token()), early, "what it had was kept while it waited");
    assert!(guard.remaining() > lease / 2, "{:?}", guard.remaining());
    assert_eq!(guard.lost().await, LostReason::Expired);
    drop(guard);
    case.is_free(&a).await;
    case.is_free(&b).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// `max_hold` begins when the last lock is held.
pub async fn max_hold_begins_when_all_are_held(case: &Case) {
    let (blocker, keeper) = (case.keeper().await, case.keeper().await);
    let [a, b] = names(case, ["a", "b"]);
    let held = blocker.mutex(&b).unwrap().lock().await.unwrap();
    let max_hold = Duration::from_secs(6);
    let waiting = tokio::spawn(
        multi(&keeper, &[a.clone(), b.clone()]).lock().max_hold(max_hold).into_future(),
    );
    case.until_waiting(&blocker, &b, 1).await;
    let early = blocker.inspect(&a).await.unwrap().holders[0].token;
    case.pass(max_hold).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(Some(guard.guards()[0].token()), early, "what it had was kept while it waited");
    assert!(guard.remaining() > max_hold / 4, "{:?}", guard.remaining());
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert!(guard.guards().iter().all(|guard| guard.check().is_err()));
}

/// A wait for a lock of the same owner is refused, and leaves nothing.
pub async fn waiting_for_oneself_is_refused_and_leaves_nothing(case: &Case) {
    let (keeper, me) = (case.keeper().await, Owner::new());
    let [a, b] = names(case, ["a", "b"]);
    let guard = keeper.mutex(&b).unwrap().lock().owner(&me).await.unwrap();
    let lock = multi(&keeper, &[a.clone(), b.clone()]);
    let error = lock.lock().owner(&me).await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::WouldDeadlock, Some(&b)));
    case.is_free(&a).await;
    guard.release().await.unwrap();
    let all = lock.lock().owner(&me).reason("both").await.unwrap();
    let error = keeper.mutex(&a).unwrap().lock().owner(&me).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    for name in [&a, &b] {
        assert_eq!(keeper.inspect(name).await.unwrap().holders[0].reason.as_deref(), Some("both"));
    }
    all.release().await.unwrap();
}

/// An unfair multi-lock has no place in any line.
pub async fn unfair_ones_wait_beside_every_line(case: &Case) {
    let (blocker, keeper) = (case.keeper().await, case.keeper().await);
    let [a, b] = names(case, ["a", "b"]);
    let first = blocker.mutex(&a).unwrap().lock().await.unwrap();
    let second = blocker.mutex(&b).unwrap().lock().await.unwrap();
    let waiting =
        tokio::spawn(multi(&keeper, &[a.clone(), b.clone()]).lock().unfair().into_future());
    for (name, guard) in [(&a, first), (&b, second)] {
        case.pass(Duration::from_millis(100)).await;
        assert_eq!(blocker.inspect(name).await.unwrap().waiters.len(), 0);
        assert!(!waiting.is_finished());
        guard.release().await.unwrap();
    }
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// Each lock is held in its own mode: readers share one lock, while the others are exclusive or
/// counted.
pub async fn each_is_held_in_its_own_mode(case: &Case) {
    let (one, two) = (case.keeper().await, case.keeper().await);
    let [a, b, c] = names(case, ["a", "b", "c"]);
    let lock = one.multi().permits(&c, 2, 3).read(&a).lock(&b).build().unwrap();
    let guard = lock.lock().await.unwrap();
    let modes: Vec<Mode> = guard.guards().iter().map(Guard::mode).collect();
    assert_eq!(modes, [Mode::Shared, Mode::Exclusive, Mode::Permits(2)]);
    let beside = two.multi().read(&a).permits(&c, 1, 3).build().unwrap();
    let also = beside.try_lock().await.unwrap().expect("readers and permits share");
    assert!(two.multi().read(&a).read(&b).build().unwrap().try_lock().await.unwrap().is_none());
    assert!(beside.try_lock().await.unwrap().is_none(), "no permit is left");
    also.release().await.unwrap();
    let error = two.multi().read(&a).lock(&c).build().unwrap().lock().await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Mismatch, Some(&c)));
    guard.release().await.unwrap();
    for name in [&a, &b] {
        case.is_free(name).await;
    }
    assert!(two.semaphore(&c, 3).unwrap().try_acquire_many(3).await.unwrap().is_some());
}

/// A name that is given twice counts once, in the stronger mode. A name that is given as two kinds
/// of locks is refused.
pub async fn a_name_counts_once_in_its_strongest_mode(case: &Case) {
    let keeper = case.keeper().await;
    let [a, b, c] = names(case, ["a", "b", "c"]);
    let twice = keeper
        .multi()
        .read(&a)
        .lock(&a)
        .read(&a)
        .read(&b)
        .read(&b)
        .permits(&c, 2, 5)
        .permits(&c, 3, 5);
    let guard = twice.build().unwrap().lock().await.unwrap();
    let modes: Vec<Mode> = guard.guards().iter().map(Guard::mode).collect();
    assert_eq!(modes, [Mode::Exclusive, Mode::Shared, Mode::Permits(3)]);
    guard.release().await.unwrap();
    for wrong in [
        keeper.multi().lock(&a).permits(&a, 1, 2),
        keeper.multi().permits(&a, 1, 2).permits(&a, 1, 3),
        keeper.multi().lock(&b).permits(&a, 0, 2),
        keeper.multi().lock(&b).permits(&a, 3, 2),
        keeper.multi().lock(&b).permits(&a, 1, 0),
        keeper.multi().lock(&b).permits(&a, 0, u32::MAX),
        keeper.multi().lock(&b).permits(&a, 5, u32::MAX),
        keeper.multi().lock(&a).permits(&a, u32::MAX, u32::MAX),
    ] {
        let error = wrong.build().unwrap_err();
        assert_eq!((error.kind(), error.name()), (ErrorKind::Invalid, Some(&a)));
    }
    assert_eq!(keeper.multi().build().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(keeper.multi().lock(&a).lock("").build().unwrap_err().kind(), ErrorKind::Invalid);
}

/// Readers and writers of the same names, taken together in any order, never wait for each other.
pub async fn mixed_modes_never_wait_for_each_other(case: &Case) {
    let all = names(case, ["a", "b", "c"]);
    let mut tasks = Vec::new();
    for seed in 0..6_usize {
        let keeper = case.keeper().await;
        let all = all.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..4 {
                let mut builder = keeper.multi();
                for i in 0..3 {
                    let name = &all[(i + seed) % 3];
                    builder = match (seed + round * 5 + i * 7) % 3 {
                        0 => builder.lock(name),
                        1 => builder.read(name),
                        _ => builder,
                    };
                }
                let lock = builder.read(&all[seed % 3]).build().unwrap();
                lock.lock().await.unwrap().release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for name in &all {
        case.is_free(name).await;
    }
}

/// A dropped multi-lock lets the next waiters in.
pub async fn a_dropped_one_is_released(case: &Case) {
    let test_client = case.test_client(Ttls::long()).await;
    let all = names(case, ["a", "b"]);
    drop(multi(&test_client.keeper, &all).lock().await.unwrap());
    // The releases were sent before the next claims of the same task.
    let next = multi(&test_client.keeper, &all).try_lock().await.unwrap();
    next.expect("the releases were not overtaken").release().await.unwrap();
    assert_eq!(
        test_client.event_log.entries(),
        [
            "acquired", "acquired", "dropped", "dropped", "acquired", "acquired", "released",
            "released"
        ]
    );
}
