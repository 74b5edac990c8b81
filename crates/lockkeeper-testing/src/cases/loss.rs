//! The loss of a lock. Its holder knows of the loss before another client has the lock.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::layer::{Fault, Faults, Operation};
use lockkeeper::store::{Evict, Store, Target};
use lockkeeper::{Error, ErrorKind, LostReason, SessionState};

/// Renewals keep a lock for as long as its holder holds it.
pub async fn a_lock_is_kept_for_many_ttls(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    case.pass(case.short().ttl * 4).await;
    guard.check().unwrap();
    // A busy machine may hold up a renewal until it counts as failed. Another renewal then came in
    // time.
    let entries = test_client.event_log.entries();
    let trouble =
        entries.iter().rfind(|entry| entry.starts_with("renewal failed") || *entry == "recovered");
    assert!(trouble.is_none_or(|last| last == "recovered"), "{entries:?}");
    guard.release().await.unwrap();
}

/// A holder that cannot renew knows, without any message, that it has lost the lock, before another
/// client has the lock.
pub async fn a_silent_store_ends_the_hold_in_time(case: &Case) {
    let name = case.name("m");
    let (a, b) = (case.test_client(case.short()).await, case.test_client(case.short()).await);
    let guard = a.mutex(&name).lock().await.unwrap();
    let next = tokio::spawn(b.mutex(&name).lock().into_future());
    case.until_waiting(&b.keeper, &name, 1).await;
    let lost = tokio::spawn({
        let (lost, clock) = (guard.lost(), case.clock().clone());
        async move { (lost.await, clock.now()) }
    });
    a.cut_off(true);
    let next = next.await.unwrap().unwrap();
    let taken = case.now();
    assert!(guard.check().is_err() && guard.remaining().is_zero());
    let (reason, known) = lost.await.unwrap();
    assert!(matches!(reason, LostReason::Expired | LostReason::SessionExpired), "{reason:?}");
    assert!(known <= taken, "it was told after another had the lock");
    assert!(next.token() > guard.token());
    a.cut_off(false);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.check().unwrap();
    assert!(a.event_log.has("jeopardy") && a.event_log.has("renewal failed"));
    assert_eq!(a.event_log.entries().iter().filter(|e| e.starts_with("lost")).count(), 1);
    next.release().await.unwrap();
}

/// An outage that is shorter than the lease causes events, and changes nothing else.
pub async fn a_short_outage_is_survived(case: &Case) {
    let name = case.name("m");
    let ttls = Ttls { ttl: case.short().ttl * 3, ..case.short() };
    let test_client = case.test_client(ttls).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let mut session = test_client.keeper.session();
    assert_eq!(session.state(), SessionState::Valid);
    test_client.cut_off(true);
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    test_client.cut_off(false);
    assert_eq!(session.changed().await, SessionState::Valid);
    case.pass(ttls.ttl).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(test_client.event_log.has("jeopardy") && test_client.event_log.has("recovered"));
}

/// A store that does not answer at all puts the holder into jeopardy before the holder loses the
/// lock, and an event reports this.
pub async fn a_renewal_that_hangs_is_reported(case: &Case) {
    let name = case.name("m");
    let ttls = Ttls { ttl: case.short().ttl * 3, ..case.short() };
    let test_client = case.test_client(ttls).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let mut session = test_client.keeper.session();
    test_client.line.set(Faults::none().slow(1000, ttls.ttl * 40).only(&[Operation::Renew]));
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    guard.check().expect("there is time left");
    assert!(test_client.event_log.has("renewal failed"));
    let _ = guard.lost().await;
}

/// A lost lock stays lost: no late answer revives it, and the keeper goes on with a new session.
pub async fn a_lost_lock_stays_lost(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    test_client.cut_off(true);
    let _ = guard.lost().await;
    test_client.cut_off(false);
    case.pass(case.short().ttl).await;
    let error = guard.check().unwrap_err();
    assert_eq!((error.kind(), guard.remaining()), (ErrorKind::Lost, Duration::ZERO));
    let again = test_client.mutex(&name).lock().await.unwrap();
    assert!(again.token() > guard.token());
    assert!(guard.check().is_err() && again.check().is_ok());
    // The end of the old guard does not end the new guard.
    drop(guard);
    case.pass(case.short().ttl).await;
    again.check().unwrap();
    again.release().await.unwrap();
    let valid = async || test_client.keeper.session().state() == SessionState::Valid;
    case.until("the session is valid", valid).await;
}

/// A renewal whose answer comes after the lease has expired renews nothing.
pub async fn a_late_answer_revives_nothing(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let slow = Faults::none().slow(1000, case.short().ttl * 40).only(&[Operation::Renew]);
    test_client.line.set(slow);
    let _ = guard.lost().await;
    test_client.line.quiet();
    test_client.line.settled().await;
    case.pass(case.short().ttl * 2).await;
    assert!(guard.check().is_err());
}

/// A holder whose lock was broken learns who broke it and why. The lock is free only when its lease
/// has expired.
pub async fn a_broken_lock_reports_who_and_why(case: &Case) {
    let name = case.name("m");
    let (a, b) = (case.test_client(case.short()).await, case.keeper().await);
    let guard = a.mutex(&name).lock().await.unwrap();
    let store = case.harness().client().await;
    let target = Target::Token(guard.token().raw());
    let admin = store.admin().unwrap();
    admin.evict(&name, &target, Evict::Mark, "operator", "stuck").await.unwrap();
    let reason = guard.lost().await;
    assert_eq!(reason, LostReason::Broken { by: "operator".into(), reason: "stuck".into() });
    assert!(b.mutex(&name).unwrap().try_lock().await.unwrap().is_none(), "its lease is not over");
    let next = b.mutex(&name).unwrap().lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.check().unwrap();
    next.release().await.unwrap();
}

/// The next renewal finds that a claim was removed.
pub async fn a_removed_claim_is_found_out(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let store = case.harness().client().await;
    let target = Target::Token(guard.token().raw());
    store.admin().unwrap().evict(&name, &target, Evict::Now, "operator", "stuck").await.unwrap();
    let _ = guard.lost().await;
    assert!(guard.check().is_err());
    drop(guard);
    case.is_free(&name).await;
}

/// A lock is held for `max_hold` and no longer, even if it is renewed.
pub async fn max_hold_ends_a_hold(case: &Case) {
    let (name, max) = (case.name("m"), case.short().ttl * 2);
    let test_client = case.test_client(case.short()).await;
    let start = case.now();
    let guard = test_client.mutex(&name).lock().max_hold(max).await.unwrap();
    assert!(guard.remaining() <= max);
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert!(case.since(start) >= max);
    drop(guard);
    case.is_free(&name).await;
}

/// A fixed lease ends at its announced time, and is not renewed.
pub async fn a_fixed_lease_is_not_renewed(case: &Case) {
    let (name, lease) = (case.name("m"), case.short().ttl * 2);
    let (a, b) = (case.test_client(case.short()).await, case.keeper().await);
    let start = case.now();
    let guard = a.mutex(&name).lock().lease(lease).await.unwrap();
    assert!(guard.remaining() > lease / 2 && guard.remaining() <= lease);
    let next = b.mutex(&name).unwrap().lock().await.unwrap();
    assert!(case.since(start) >= lease.mul_f64(0.98), "{:?}", case.since(start));
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
    next.release().await.unwrap();
    drop(guard);
    case.is_free(&name).await;
}

/// A fixed lease has its whole length from the grant on, even after a long wait in line.
pub async fn a_fixed_lease_begins_at_the_grant(case: &Case) {
    let (name, lease) = (case.name("m"), case.short().ttl * 2);
    let (a, b) = (case.keeper().await, case.test_client(case.short()).await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(b.mutex(&name).lock().lease(lease).into_future());
    case.until_waiting(&a, &name, 1).await;
    case.pass(lease).await;
    guard.release().await.unwrap();
    let leased = waiting.await.unwrap().unwrap();
    assert!(leased.remaining() > lease.mul_f64(0.7), "{:?}", leased.remaining());
    leased.release().await.unwrap();
    case.is_free(&name).await;
}

/// The work inside a scope is dropped when the lock is lost, and its result does not count.
pub async fn a_scope_ends_with_the_lock(case: &Case) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let inside = Dropped(Arc::clone(&dropped));
    test_client.cut_off(true);
    let ended = guard.while_held(async move {
        let _inside = inside;
        std::future::pending::<()>().await;
    });
    assert_eq!(ended.await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(guard.while_held(async { 1 }).await.unwrap_err().kind(), ErrorKind::Lost);
}

/// `with` returns the loss, but the user's own error wins; a release that fails does not matter.
pub async fn with_returns_the_loss_or_the_users_error(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let mutex = test_client.mutex(&name);
    assert_eq!(mutex.lock().with(async |_| Ok::<_, Error>(3)).await.unwrap(), 3);
    let own =
        mutex.lock().with(async |_| Err::<(), _>(Error::new(ErrorKind::Conflict, "mine"))).await;
    assert_eq!(own.unwrap_err().kind(), ErrorKind::Conflict);
    test_client.line.plan(Operation::Withdraw, Fault::LostReply);
    assert_eq!(mutex.lock().with(async |_| Ok::<_, Error>(4)).await.unwrap(), 4);
    let lost = mutex.lock().with(async |_| {
        test_client.cut_off(true);
        std::future::pending::<Result<(), Error>>().await
    });
    assert_eq!(lost.await.unwrap_err().kind(), ErrorKind::Lost);
    test_client.cut_off(false);
    case.is_free(&name).await;
}

/// Every clone of the future reports the loss, also after the guard is gone.
pub async fn every_guard_learns_of_the_loss(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(case.short()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let (one, two) = (guard.lost(), guard.lost().clone());
    test_client.cut_off(true);
    assert_eq!(one.await, two.await);
    drop(guard);
}
