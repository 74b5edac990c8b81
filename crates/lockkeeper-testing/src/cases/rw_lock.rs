//! The read-write lock in the public interface.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, Time};
use lockkeeper::{ErrorKind, Guard, LostReason, Mode, NotConverted, Owner, Result, RwLock};

async fn lock(case: &Case) -> RwLock {
    case.keeper().await.rw_lock(case.name("lock")).unwrap()
}

fn still_read(upgrade: Result<Guard, NotConverted>) -> Guard {
    let (guard, error) = upgrade.expect_err("it writes beside somebody").into_parts();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    guard.expect("it is the reader that it was")
}

/// Readers hold the lock together, each with a token of its own. A writer holds the lock alone. The
/// mutex of the same name is a writer.
pub async fn readers_hold_it_together_and_writers_alone(case: &Case) {
    let (one, two) = (lock(case).await, lock(case).await);
    let (a, b) = (one.read().await.unwrap(), two.read().await.unwrap());
    assert!(a.mode() == Mode::Shared && a.token() != b.token());
    assert!(one.try_write().await.unwrap().is_none());
    let keeper = case.keeper().await;
    assert!(keeper.mutex(case.name("lock")).unwrap().try_lock().await.unwrap().is_none());
    let again = two.try_read().await.unwrap().expect("readers share");
    for guard in [a, b, again] {
        assert!(keeper.check_sequencer(&guard.sequencer()).await.unwrap());
        guard.release().await.unwrap();
    }
    let writer = one.write().await.unwrap();
    assert_eq!(writer.mode(), Mode::Exclusive);
    assert!(two.try_read().await.unwrap().is_none() && two.try_write().await.unwrap().is_none());
    writer.release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}

/// Claims are served in the order of their arrival: readers behind a writer wait with it, and no
/// claim starves.
pub async fn neither_readers_nor_writers_starve(case: &Case) {
    let (keeper, name) = (case.keeper().await, case.name("lock"));
    let reading = lock(case).await.read().await.unwrap();
    let writing = tokio::spawn(lock(case).await.write().into_future());
    case.until_waiting(&keeper, &name, 1).await;
    assert!(lock(case).await.try_read().await.unwrap().is_none());
    let late: Vec<_> = [lock(case).await, lock(case).await]
        .into_iter()
        .map(|l| tokio::spawn(l.read().into_future()))
        .collect();
    case.until_waiting(&keeper, &name, 3).await;
    let mut last = reading.token();
    reading.release().await.unwrap();
    let writer = writing.await.unwrap().unwrap();
    assert!(writer.token() > last && late.iter().all(|reader| !reader.is_finished()));
    last = writer.token();
    writer.release().await.unwrap();
    for reader in late {
        let reader = reader.await.unwrap().unwrap();
        assert!(reader.token() > last);
    }
    case.is_free(&name).await;
}

/// A wait ends with its time, and leaves nothing. Unfair readers wait beside the line.
pub async fn a_wait_ends_with_its_time(case: &Case) {
    let (one, two) = (lock(case).await, lock(case).await);
    let writer = one.write().await.unwrap();
    let wait = Duration::from_millis(200);
    assert_eq!(two.read().wait(wait).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(two.try_read().wait(wait).await.unwrap().is_none());
    let unfair = tokio::spawn(two.read().unfair().into_future());
    case.pass(wait).await;
    let info = case.keeper().await.inspect(case.name("lock")).await.unwrap();
    assert_eq!((info.waiters.len(), unfair.is_finished()), (0, false));
    writer.release().await.unwrap();
    unfair.await.unwrap().unwrap().release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}

/// A writer that becomes a reader lets readers in, and no writer. The reader has the writer's
/// token, and is renewed as before.
pub async fn a_downgrade_lets_readers_in_and_no_writer(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let others = lock(case).await;
    let writer = test_client.keeper.rw_lock(case.name("lock")).unwrap().write().await.unwrap();
    let token = writer.token();
    let waiting = tokio::spawn(others.read().into_future());
    case.until_waiting(&test_client.keeper, &case.name("lock"), 1).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!((reader.mode(), reader.token()), (Mode::Shared, token));
    let beside = waiting.await.unwrap().unwrap();
    assert!(others.try_write().await.unwrap().is_none());
    case.pass(case.short().ttl * 3).await;
    reader.check().unwrap();
    assert!(test_client.keeper.check_sequencer(&reader.sequencer()).await.unwrap());
    beside.release().await.unwrap();
    assert!(others.try_write().await.unwrap().is_none());
    reader.release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}

/// Only a writer can be downgraded, and only while it holds the lock. Otherwise the guard comes
/// back.
pub async fn what_cannot_be_downgraded_comes_back(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let lock = test_client.keeper.rw_lock(case.name("lock")).unwrap();
    let reader = lock.read().await.unwrap();
    let (reader, error) = reader.downgrade().await.unwrap_err().into_parts();
    let reader = reader.unwrap();
    assert_eq!((error.kind(), reader.mode()), (ErrorKind::Invalid, Mode::Shared));
    reader.check().unwrap();
    drop(reader);
    let writer = lock.write().await.unwrap();
    test_client.cut_off(true);
    case.pass(case.short().ttl * 2).await;
    let (writer, error) = writer.downgrade().await.unwrap_err().into_parts();
    let writer = writer.unwrap();
    assert_eq!((error.kind(), writer.check().is_err()), (ErrorKind::Lost, true));
    test_client.cut_off(false);
    drop(writer);
    case.is_free(&case.name("lock")).await;
}

/// A lone reader becomes the writer, with a token of its own, and is renewed as a writer.
pub async fn a_lone_reader_becomes_the_writer(case: &Case) {
    let (test_client, others) = (case.test_client(case.short()).await, lock(case).await);
    let reader =
        test_client.keeper.rw_lock(case.name("lock")).unwrap().read().reason("why").await.unwrap();
    let (token, lost) = (reader.token(), reader.lost());
    let writer = reader.try_upgrade().await.unwrap();
    assert!(writer.token() > token && writer.mode() == Mode::Exclusive);
    assert!(others.try_read().await.unwrap().is_none());
    let info = test_client.keeper.inspect(case.name("lock")).await.unwrap();
    assert_eq!((info.holders.len(), info.holders[0].reason.as_deref()), (1, Some("why")));
    case.pass(case.short().ttl * 3).await;
    writer.check().unwrap();
    let reader = writer.downgrade().await.unwrap();
    let writer = reader.try_upgrade().await.unwrap();
    assert!(
        !test_client.event_log.entries().iter().any(|entry| entry.starts_with("lost")),
        "{:?}",
        test_client.event_log.entries()
    );
    writer.release().await.unwrap();
    drop(lost);
    case.is_free(&case.name("lock")).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// A reader beside another reader, or before a waiting writer, is not upgraded and stays a reader.
pub async fn a_reader_in_company_stays_a_reader(case: &Case) {
    let (test_client, others) = (case.test_client(case.short()).await, lock(case).await);
    let reader = test_client.keeper.rw_lock(case.name("lock")).unwrap().read().await.unwrap();
    let token = reader.token();
    let beside = others.read().await.unwrap();
    let reader = still_read(reader.try_upgrade().await);
    assert_eq!((reader.token(), reader.mode()), (token, Mode::Shared));
    beside.release().await.unwrap();
    let waiting = tokio::spawn(others.write().into_future());
    case.until_waiting(&test_client.keeper, &case.name("lock"), 1).await;
    let reader = still_read(reader.try_upgrade().await);
    // The reader is still renewed.
    case.pass(case.short().ttl * 3).await;
    reader.check().unwrap();
    assert!(!waiting.is_finished());
    reader.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}

/// Of two readers that ask for an upgrade, one gets its read lock back, and neither hangs.
pub async fn two_upgraders_stay_readers_until_one_gives_way(case: &Case) {
    let (one, two) = (lock(case).await, lock(case).await);
    for _ in 0..5 {
        let (a, b) = (one.read().await.unwrap(), two.read().await.unwrap());
        let (a, b) = tokio::join!(a.try_upgrade(), b.try_upgrade());
        let (a, b) = (still_read(a), still_read(b));
        // One reader releases the lock, and the other goes on.
        a.release().await.unwrap();
        let writer = b.try_upgrade().await.unwrap();
        writer.release().await.unwrap();
    }
    case.is_free(&case.name("lock")).await;
}

/// A writer cannot be upgraded, and stays the writer.
pub async fn only_a_reader_is_upgraded(case: &Case) {
    let lock = lock(case).await;
    let writer = lock.write().await.unwrap();
    let (writer, error) = writer.try_upgrade().await.unwrap_err().into_parts();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let writer = writer.unwrap();
    assert_eq!(writer.mode(), Mode::Exclusive);
    writer.release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}

/// An upgrade whose time is over before the store has answered leaves neither lock.
pub async fn an_upgrade_without_an_answer_ends_both(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let reader = test_client.keeper.rw_lock(case.name("lock")).unwrap().read().await.unwrap();
    test_client.cut_off(true);
    let (guard, error) = reader.try_upgrade().await.unwrap_err().into_parts();
    assert!(guard.is_none(), "the lock is given up");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost), "{error:?}");
    test_client.cut_off(false);
    case.is_free(&case.name("lock")).await;
}

/// A reader with a fixed lease becomes a writer with a fixed lease.
pub async fn a_fixed_lease_is_upgraded(case: &Case) {
    let (test_client, others) = (case.test_client(case.short()).await, lock(case).await);
    let lease = Duration::from_secs(30);
    let reader =
        test_client.keeper.rw_lock(case.name("lock")).unwrap().read().lease(lease).await.unwrap();
    let token = reader.token();
    let writer = reader.try_upgrade().await.unwrap();
    assert!(writer.token() > token && others.try_read().await.unwrap().is_none());
    writer.release().await.unwrap();
    case.is_free(&case.name("lock")).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// `max_hold` outlives the conversions.
pub async fn max_hold_outlives_an_upgrade(case: &Case) {
    let lock = lock(case).await;
    let start = case.now();
    // A busy machine has two thirds of `most` for the upgrade.
    let most = Duration::from_secs(9);
    let reader = lock.read().max_hold(most).await.unwrap();
    case.pass(most / 3).await;
    let writer = reader.try_upgrade().await.unwrap();
    assert_eq!(writer.lost().await, LostReason::MaxHold);
    let held = case.since(start);
    assert!(held >= most, "{held:?}");
    // On a busy machine every step may take long.
    assert!(
        case.harness().time() != Time::Virtual || held < most + most / 4,
        "it began again with the upgrade: {held:?}"
    );
}

/// An attempt that would wait behind its own owner is refused. An attempt that need not wait is
/// granted.
pub async fn waiting_behind_oneself_is_refused(case: &Case) {
    let (keeper, others, me) = (case.keeper().await, lock(case).await, Owner::new());
    let lock = keeper.rw_lock(case.name("lock")).unwrap();
    let reader = lock.read().owner(&me).await.unwrap();
    assert_eq!(lock.write().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    lock.read().owner(&me).await.unwrap().release().await.unwrap();
    let writer = tokio::spawn(others.write().into_future());
    case.until_waiting(&keeper, &case.name("lock"), 1).await;
    assert_eq!(lock.read().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    reader.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();
    case.is_free(&case.name("lock")).await;
}
