//! The mutex of the public interface.

use std::future::IntoFuture;
use std::time::Duration;

use crate::LostUpdateCounter;
use crate::{Case, Ttls};
use lockkeeper::{ErrorKind, Mode, Owner};

/// A second holder waits until the first holder releases the lock, and has a higher token.
pub async fn a_second_holder_waits_for_the_first(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let first = a.mutex(&name).unwrap().lock().await.unwrap();
    let second = tokio::spawn(b.mutex(&name).unwrap().lock().into_future());
    case.until_waiting(&a, &name, 1).await;
    let token = first.token();
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.token() > token);
    assert_eq!((second.mode(), second.name()), (Mode::Exclusive, &name));
    second.check().unwrap();
    second.release().await.unwrap();
    case.is_free(&name).await;
}

/// A try on a busy lock answers `None`, and leaves no claim in line.
pub async fn a_try_on_a_busy_lock_is_none(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().try_lock().await.unwrap().unwrap();
    for mutex in [a.mutex(&name).unwrap(), b.mutex(&name).unwrap()] {
        assert!(mutex.try_lock().await.unwrap().is_none());
    }
    assert_eq!(b.inspect(&name).await.unwrap().waiters.len(), 0);
    guard.release().await.unwrap();
    assert!(b.mutex(&name).unwrap().try_lock().await.unwrap().is_some());
}

/// An attempt whose wait is over gets `Timeout`, and has left the line.
pub async fn a_wait_ends_with_its_time(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let wait = Duration::from_millis(300);
    let start = case.now();
    let error = b.mutex(&name).unwrap().lock().wait(wait).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.name(), Some(&name));
    assert!(case.since(start) >= wait);
    case.until_waiting(&a, &name, 0).await;
    let tried = b.mutex(&name).unwrap().try_lock().wait(wait).await.unwrap();
    assert!(tried.is_none());
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// A wait of zero is a try.
pub async fn to_wait_for_no_time_is_to_try(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let free = b.mutex(&name).unwrap().lock().wait(Duration::ZERO).await.unwrap();
    free.release().await.unwrap();
    let _guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let error = b.mutex(&name).unwrap().lock().wait(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(a.inspect(&name).await.unwrap().waiters.len(), 0);
}

/// No increment of any process is lost.
pub async fn no_increment_is_lost(case: &Case) {
    let (name, counter) = (case.name("m"), LostUpdateCounter::default());
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let keeper = case.keeper().await;
        for _ in 0..3 {
            let (mutex, counter) = (keeper.mutex(&name).unwrap(), counter.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = mutex.lock().await.unwrap();
                    counter.add(&guard).await;
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.total(), 90);
}

/// A dropped guard lets the next waiter in.
pub async fn a_dropped_guard_is_released(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(Ttls::long()).await;
    drop(test_client.mutex(&name).lock().await.unwrap());
    // The release was sent before the next claim of the same task.
    let next = test_client.mutex(&name).try_lock().await.unwrap();
    assert!(next.is_some(), "the release was overtaken by the next claim");
    next.unwrap().release().await.unwrap();
    assert_eq!(test_client.event_log.entries(), ["acquired", "dropped", "acquired", "released"]);
    case.is_free(&name).await;
}

/// Other clients see the owner and the reason that a holder gives.
pub async fn a_holder_is_seen_as_it_says(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(Ttls::long()).await;
    let other = case.keeper().await;
    let guard = test_client.mutex(&name).lock().reason("build 7").await.unwrap();
    let info = other.inspect(&name).await.unwrap();
    assert!(info.is_held() && info.mode == Some(Mode::Exclusive) && info.capacity.is_none());
    let holder = &info.holders[0];
    assert_eq!((holder.owner.as_str(), holder.reason.as_deref()), ("somebody", Some("build 7")));
    assert_eq!((holder.token, info.last_token), (Some(guard.token()), Some(guard.token())));
    guard.release().await.unwrap();
    let info = other.inspect(&name).await.unwrap();
    assert!(!info.is_held() && info.mode.is_none());
}

/// A sequencer is valid while its grant holds the lock.
pub async fn a_sequencer_is_valid_while_its_grant_is(case: &Case) {
    let (name, a, b) = (case.name("m"), case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let sequencer = guard.sequencer().to_string().parse().unwrap();
    assert!(b.check_sequencer(&sequencer).await.unwrap());
    guard.release().await.unwrap();
    assert!(!b.check_sequencer(&sequencer).await.unwrap());
    let _next = b.mutex(&name).unwrap().lock().await.unwrap();
    assert!(!a.check_sequencer(&sequencer).await.unwrap());
}

/// An attempt that would wait for its own lock is refused. A try is not.
pub async fn waiting_for_oneself_is_refused(case: &Case) {
    let (name, keeper) = (case.name("m"), case.keeper().await);
    let (me, other) = (Owner::new(), Owner::new());
    let mutex = keeper.mutex(&name).unwrap();
    let guard = mutex.lock().owner(&me).await.unwrap();
    assert_eq!(mutex.lock().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    assert!(mutex.try_lock().owner(&me).await.unwrap().is_none());
    let waited = mutex.lock().owner(&other).wait(Duration::from_millis(50)).await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Timeout);
    guard.release().await.unwrap();
    drop(mutex.lock().owner(&me).await.unwrap());
    mutex.lock().owner(&me).await.unwrap().release().await.unwrap();
}

/// An attempt that can never succeed is refused before anything is sent.
pub async fn what_can_never_work_is_refused(case: &Case) {
    let (name, keeper) = (case.name("m"), case.keeper().await);
    let mutex = keeper.mutex(&name).unwrap();
    let can = keeper.capabilities();
    let too_short = mutex.clone().ttl(can.ttl_min / 2).lock().await.unwrap_err();
    let too_long = mutex.clone().ttl(can.ttl_max * 2).lock().await.unwrap_err();
    let delayed = mutex
        .clone()
        .lock_delay(can.lock_delay_max + Duration::from_secs(1))
        .try_lock()
        .await
        .unwrap_err();
    for error in [too_short, too_long, delayed] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.name(), Some(&name));
    }
    let reason = mutex.lock().reason("x".repeat(2000)).await.unwrap_err();
    let max_hold = mutex.lock().max_hold(Duration::ZERO).await.unwrap_err();
    for error in [reason, max_hold] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    for bad in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(keeper.mutex(bad).unwrap_err().kind(), ErrorKind::Invalid);
    }
    case.is_free(&name).await;
}

/// A prefix and a name together are one name.
pub async fn a_prefix_and_a_name_are_one_name(case: &Case) {
    let start = case.name("team").to_string();
    let test_client = case.test_client_with(Ttls::long(), |b| b.prefix(format!("{start}/"))).await;
    let plain = case.keeper().await;
    let guard = test_client.keeper.mutex("stock").unwrap().lock().await.unwrap();
    assert_eq!(
        (guard.name().as_str(), guard.full_name().as_str()),
        ("stock", format!("{start}/stock").as_str())
    );
    assert!(plain.mutex(guard.full_name()).unwrap().try_lock().await.unwrap().is_none());
    let listed = test_client.keeper.admin().unwrap().list("st", 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(&listed[0].name, guard.name());
}

/// A higher epoch makes higher tokens, and refuses claims of lower epochs.
pub async fn a_higher_epoch_outranks_the_lower(case: &Case) {
    let name = case.name("m");
    let old = case.keeper().await;
    let before = old.mutex(&name).unwrap().lock().await.unwrap();
    let token = before.token();
    before.release().await.unwrap();
    let new = case.test_client_with(Ttls::long(), |b| b.epoch(3)).await;
    let guard = new.mutex(&name).lock().await.unwrap();
    assert!(guard.token() > token && guard.token().epoch() == 3);
    let error = old.mutex(&name).unwrap().lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    guard.release().await.unwrap();
}

/// A full line takes no further waiter.
pub async fn a_full_line_takes_nobody(case: &Case) {
    let name = case.name("m");
    let holder = case.keeper().await;
    let _guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = case.test_client_with(Ttls::long(), |b| b.max_waiters(1)).await;
    let refused = case.test_client_with(Ttls::long(), |b| b.max_waiters(1)).await;
    let waiter = tokio::spawn(waiting.mutex(&name).lock().into_future());
    case.until_waiting(&holder, &name, 1).await;
    let error = refused.mutex(&name).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
    waiter.abort();
    case.until_waiting(&holder, &name, 0).await;
}

/// A shutdown ends the waits, releases the held locks, and ends the keeper.
pub async fn a_shutdown_lets_go_of_everything(case: &Case) {
    let (name, other) = (case.name("m"), case.name("other"));
    let (a, b) = (case.test_client(Ttls::long()).await, case.keeper().await);
    let held = a.mutex(&name).lock().await.unwrap();
    let elsewhere = b.mutex(&other).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(a.mutex(&other).lock().into_future());
    case.until_waiting(&b, &other, 1).await;
    a.keeper.clone().shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(held.check().unwrap_err().lost_reason(), Some(&lockkeeper::LostReason::Shutdown));
    assert_eq!(a.mutex(&name).lock().await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(b.mutex(&name).unwrap().try_lock().await.unwrap().is_some());
    case.until_waiting(&b, &other, 0).await;
    elsewhere.release().await.unwrap();
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
}
