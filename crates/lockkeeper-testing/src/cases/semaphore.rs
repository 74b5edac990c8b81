//! The semaphore in the public interface.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::{ErrorKind, Mode, Owner, Semaphore};

async fn semaphore(case: &Case, permits: u32) -> Semaphore {
    case.keeper().await.semaphore(case.name("pool"), permits).unwrap()
}

/// The semaphore has as many holders as permits, and no more.
pub async fn there_are_so_many_permits_and_no_more(case: &Case) {
    let (one, two) = (semaphore(case, 3).await, semaphore(case, 3).await);
    let (a, b) = (one.acquire().await.unwrap(), two.acquire_many(2).await.unwrap());
    assert_eq!((a.mode(), b.mode()), (Mode::Permits(1), Mode::Permits(2)));
    assert!(two.try_acquire().await.unwrap().is_none());
    assert_eq!(
        one.acquire().wait(Duration::from_millis(100)).await.unwrap_err().kind(),
        ErrorKind::Timeout
    );
    let keeper = case.keeper().await;
    assert!(keeper.check_sequencer(&b.sequencer()).await.unwrap());
    let info = keeper.inspect(case.name("pool")).await.unwrap();
    assert_eq!((info.capacity, info.holders.len(), info.holders[1].weight), (Some(3), 2, 2));
    b.release().await.unwrap();
    let c = two.try_acquire_many(2).await.unwrap().expect("two are free");
    for guard in [a, c] {
        guard.release().await.unwrap();
    }
    case.is_free(&case.name("pool")).await;
}

/// The permits of one guard go back one by one. The rest is renewed under the same token.
pub async fn permits_are_given_back_one_by_one(case: &Case) {
    let (test_client, others) = (case.test_client(case.short()).await, semaphore(case, 3).await);
    let mut guard =
        test_client.keeper.semaphore(case.name("pool"), 3).unwrap().acquire_many(3).await.unwrap();
    let (token, waiting) = (guard.token(), tokio::spawn(others.acquire_many(2).into_future()));
    case.until_waiting(&test_client.keeper, &case.name("pool"), 1).await;
    for impossible in [0, 3, 4] {
        assert_eq!(guard.release_permits(impossible).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    guard.release_permits(1).await.unwrap();
    assert!(others.try_acquire().await.unwrap().is_none(), "the waiter is first");
    guard.release_permits(1).await.unwrap();
    let theirs = waiting.await.unwrap().unwrap();
    assert_eq!((guard.mode(), guard.token()), (Mode::Permits(1), token));
    case.pass(case.short().ttl * 3).await;
    guard.check().unwrap();
    assert!(test_client.keeper.check_sequencer(&guard.sequencer()).await.unwrap());
    assert_eq!(
        guard.release_permits(1).await.unwrap_err().kind(),
        ErrorKind::Invalid,
        "the last one is released"
    );
    guard.release().await.unwrap();
    theirs.release().await.unwrap();
    case.is_free(&case.name("pool")).await;
}

/// An adopted guard has the permits that its handle names, so all of them go back, or none.
pub async fn an_adopted_guard_gives_back_all_or_nothing(case: &Case) {
    let (keeper, pool) = (case.keeper().await, semaphore(case, 3).await);
    let handle = pool.acquire_many(3).detached(Duration::from_secs(60)).await.unwrap();
    let mut guard = keeper.adopt(handle.clone()).unwrap();
    guard.renew_once().await.unwrap();
    let refused = guard.release_permits(2).await.unwrap_err();
    assert_eq!((refused.kind(), guard.mode()), (ErrorKind::Invalid, Mode::Permits(3)), "{refused}");
    drop(guard);
    assert!(pool.try_acquire().await.unwrap().is_none(), "its handle says that it has all three");
    keeper.adopt(handle).unwrap().release().await.unwrap();
    case.is_free(&case.name("pool")).await;
}

/// Claims for few permits do not overtake a claim for many permits.
pub async fn who_wants_many_is_not_overtaken(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("pool"));
    let (one, two) = (semaphore(case, 3).await, semaphore(case, 3).await);
    let first = one.acquire().await.unwrap();
    let all = tokio::spawn(two.acquire_many(3).into_future());
    case.until_waiting(&keeper, &name, 1).await;
    assert!(one.try_acquire().await.unwrap().is_none());
    let few = tokio::spawn(one.acquire().into_future());
    case.until_waiting(&keeper, &name, 2).await;
    first.release().await.unwrap();
    let all = all.await.unwrap().unwrap();
    assert!(!few.is_finished());
    let token = all.token();
    all.release().await.unwrap();
    assert!(few.await.unwrap().unwrap().token() > token);
    case.is_free(&name).await;
}

/// Permits are renewed while they are held, and come back when their holder vanishes.
pub async fn permits_are_leased_and_renewed(case: &Case) {
    let (test_client, others) = (case.test_client(case.short()).await, semaphore(case, 2).await);
    let held =
        test_client.keeper.semaphore(case.name("pool"), 2).unwrap().acquire_many(2).await.unwrap();
    case.pass(case.short().ttl * 3).await;
    held.check().unwrap();
    assert!(others.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(others.acquire_many(2).into_future());
    test_client.cut_off(true);
    let theirs = waiting.await.unwrap().unwrap();
    assert!(held.check().is_err() && theirs.token() > held.token());
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    theirs.check().unwrap();
    theirs.release().await.unwrap();
}

/// A deploy changes the number of permits up or down while some are held. The smallest number that
/// a holder names counts, and `inspect` shows it.
pub async fn the_number_of_permits_may_change_while_it_is_in_use(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("pool"));
    let (old, new) = (semaphore(case, 3).await, semaphore(case, 5).await);
    let first = old.acquire_many(2).await.unwrap();
    let second = new.acquire().await.unwrap();
    assert!(
        new.try_acquire().await.unwrap().is_none(),
        "a fourth permit beside a holder that knows three"
    );
    let info = keeper.inspect(&name).await.unwrap();
    assert_eq!(
        (info.capacity, info.holders[0].capacity, info.holders[1].capacity),
        (Some(3), Some(3), Some(5))
    );
    let waiting = tokio::spawn(new.acquire_many(4).into_future());
    case.until_waiting(&keeper, &name, 1).await;
    first.release().await.unwrap();
    let third = waiting.await.unwrap().unwrap();
    let info = keeper.inspect(&name).await.unwrap();
    assert_eq!((info.capacity, info.holders.len(), third.mode()), (Some(5), 2, Mode::Permits(4)));
    let back = tokio::spawn(old.acquire().into_future());
    case.until_waiting(&keeper, &name, 1).await;
    let info = keeper.inspect(&name).await.unwrap();
    assert_eq!(
        (info.capacity, info.waiters[0].capacity),
        (Some(5), Some(3)),
        "who waits does not count yet"
    );
    third.release().await.unwrap();
    let back = back.await.unwrap().unwrap();
    assert_eq!(keeper.inspect(&name).await.unwrap().capacity, Some(3));
    for guard in [second, back] {
        guard.release().await.unwrap();
    }
    case.is_free(&name).await;
}

/// A semaphore and a mutex or read-write lock of one name refuse each other while one of them is in
/// use.
pub async fn another_kind_of_lock_is_refused(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("pool"));
    let held = semaphore(case, 3).await.acquire().await.unwrap();
    let error = keeper.mutex(&name).unwrap().try_lock().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Mismatch, true));
    let text = error.to_string();
    assert!(
        text.contains("semaphore") && text.contains("mutex") && text.contains("pool"),
        "{text}"
    );
    assert_eq!(
        keeper.rw_lock(&name).unwrap().read().await.unwrap_err().kind(),
        ErrorKind::Mismatch
    );
    held.release().await.unwrap();
    let mutex = keeper.mutex(&name).unwrap().lock().await.unwrap();
    assert_eq!(semaphore(case, 3).await.acquire().await.unwrap_err().kind(), ErrorKind::Mismatch);
    mutex.release().await.unwrap();
    semaphore(case, 5).await.acquire_many(5).await.unwrap().release().await.unwrap();
}

/// A number of permits that can never be granted is refused, and the error names the limits.
pub async fn impossible_numbers_are_refused(case: &Case) {
    let keeper = case.keeper().await;
    for permits in [0, (1 << 31) + 1, u32::MAX] {
        let error = keeper.semaphore(case.name("pool"), permits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(&permits.to_string()), "{error}");
    }
    let most = keeper.semaphore(case.name("most"), 1 << 31).unwrap();
    most.acquire_many(1 << 31).await.unwrap().release().await.unwrap();
    let pool = semaphore(case, 3).await;
    for permits in [0, 4, u32::MAX] {
        assert_eq!(pool.acquire_many(permits).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(pool.try_acquire_many(permits).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    case.is_free(&case.name("pool")).await;
}

/// Unfair attempts wait without a place in line, and are granted when permits are free.
pub async fn unfair_ones_wait_beside_the_line(case: &Case) {
    let (one, two) = (semaphore(case, 2).await, semaphore(case, 2).await);
    let held = one.acquire_many(2).await.unwrap();
    let unfair: Vec<_> =
        (0..2).map(|_| tokio::spawn(two.acquire().unfair().into_future())).collect();
    case.pass(Duration::from_millis(100)).await;
    assert_eq!(case.keeper().await.inspect(case.name("pool")).await.unwrap().waiters.len(), 0);
    held.release().await.unwrap();
    for one in unfair {
        one.await.unwrap().unwrap().check().unwrap();
    }
    case.is_free(&case.name("pool")).await;
}

/// Tasks never hold more permits than the semaphore has, and each task gets its permits.
pub async fn many_tasks_share_few_permits(case: &Case) {
    let used = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for i in 0..4_u32 {
        let (pool, used) = (semaphore(case, 3).await, std::sync::Arc::clone(&used));
        let clock = case.clock().clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..4 {
                let permits = 1 + (i + round) % 3;
                let guard = pool.acquire_many(permits).await.unwrap();
                let now = used.fetch_add(permits, std::sync::atomic::Ordering::SeqCst) + permits;
                assert!(now <= 3, "{now} permits are used of 3");
                clock.sleep(Duration::from_millis(3)).await;
                used.fetch_sub(permits, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    case.is_free(&case.name("pool")).await;
}

/// An owner may acquire further permits, but never waits behind its own permits.
pub async fn waiting_behind_oneself_is_refused(case: &Case) {
    let (test_client, me) = (case.test_client(Ttls::long()).await, Owner::new());
    let pool = test_client.keeper.semaphore(case.name("pool"), 2).unwrap();
    let one = pool.acquire().owner(&me).await.unwrap();
    let two = pool.acquire().owner(&me).await.unwrap();
    assert_eq!(pool.acquire().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    assert!(pool.try_acquire().owner(&me).await.unwrap().is_none());
    one.release().await.unwrap();
    two.release().await.unwrap();
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}
