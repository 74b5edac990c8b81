//! Breaks through the public interface.

use std::future::IntoFuture;

use crate::{Case, Ttls};
use lockkeeper::{Break, ErrorKind, IdHash, Keeper, LockName, LostReason, Target};

async fn holder(keeper: &Keeper, name: &LockName) -> IdHash {
    keeper.inspect(name).await.unwrap().holders[0].id
}

/// The number of attempts, since a machine may pause for most of a ttl while a holder is about to
/// learn of its mark.
const STANDSTILLS: usize = 3;

/// A marked holder learns who broke the lock and why. Only after that the next waiter has the lock.
pub async fn a_mark_is_reported_before_the_next_has_the_lock(case: &Case) {
    for attempt in 1..=STANDSTILLS {
        if mark_is_reported(case, &format!("m{attempt}")).await {
            return;
        }
    }
    panic!("{STANDSTILLS} marked holders stopped to believe, and none had heard why");
}

/// Returns false when the holder has lost the lock without the report. This happens in a storm. The
/// same happens when the holder and the store pause for longer than the lease: the end of the lease
/// and the report then arrive together.
async fn mark_is_reported(case: &Case, name: &str) -> bool {
    let name = case.name(name);
    let (a, b) = (case.test_client(case.short()).await, case.keeper().await);
    let guard = a.mutex(&name).lock().await.unwrap();
    let target = Target::IdHash(holder(&b, &name).await);
    assert!(b.admin().unwrap().break_lock(&name, target, "stuck", Break::Mark).await.unwrap());
    let marked = b.inspect(&name).await.unwrap().holders.remove(0);
    let broken = marked.broken.expect("the mark is shown");
    assert_eq!((&*broken.by, &*broken.reason), ("somebody", "stuck"));
    let next = b.mutex(&name).unwrap().lock().await.unwrap();
    let lost = guard.check().unwrap_err().lost_reason().cloned().unwrap();
    next.release().await.unwrap();
    let reported = LostReason::Broken { by: "somebody".into(), reason: "stuck".into() };
    assert!(
        lost == reported || matches!(lost, LostReason::Expired | LostReason::Forgotten),
        "{lost:?}"
    );
    lost == reported || !case.harness().fault_profile().is_none()
}

/// A removal gives the lock to the next waiter at once.
pub async fn a_removal_gives_the_lock_to_the_next_at_once(case: &Case) {
    let name = case.name("m");
    let (a, b) = (case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let next = tokio::spawn(b.mutex(&name).unwrap().lock().into_future());
    case.until_waiting(&a, &name, 1).await;
    let target = Target::Token(guard.token());
    assert!(b.admin().unwrap().break_lock(&name, target, "stuck", Break::Now).await.unwrap());
    let next = next.await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    drop(guard);
    case.is_free(&name).await;
}

/// A marked holder that is removed before its lease expires learns of the removal.
pub async fn a_removal_of_what_was_marked_is_reported(case: &Case) {
    let name = case.name("m");
    let ttls = Ttls { ttl: case.short().ttl * 12, ..case.short() };
    let (a, b) = (case.test_client(ttls).await, case.keeper().await);
    let (guard, admin) = (a.mutex(&name).lock().await.unwrap(), b.admin().unwrap());
    let target = Target::Token(guard.token());
    assert!(admin.break_lock(&name, target, "stuck", Break::Mark).await.unwrap());
    assert!(matches!(guard.lost().await, LostReason::Broken { .. }));
    let early = case.clock().timeout(ttls.ttl / 12, guard.given_away()).await;
    assert!(early.is_none(), "its lease is not over, and nobody else has it");
    assert!(admin.break_lock(&name, target, "at once", Break::Now).await.unwrap());
    let removed = case.now();
    guard.given_away().await;
    // At least half of the lease is left here, and a guard without a report would wait for its end.
    assert!(case.since(removed) < ttls.ttl / 4, "{:?} of {:?}", case.since(removed), ttls.ttl);
    assert!(
        matches!(guard.check().unwrap_err().lost_reason(), Some(LostReason::Broken { .. })),
        "the first stands"
    );
    b.mutex(&name).unwrap().lock().await.unwrap().release().await.unwrap();
    drop(guard);
    case.is_free(&name).await;
}

/// A token names its present holder. The token names neither a waiter that will get it, nor a
/// holder with the same number of another epoch.
pub async fn a_token_names_its_holder_and_nobody_else(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client_with(Ttls::long(), |builder| builder.epoch(3)).await;
    let (other, admin) = (
        case.test_client_with(Ttls::long(), |b| b.epoch(3)).await,
        test_client.keeper.admin().unwrap(),
    );
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let waiting = tokio::spawn(other.mutex(&name).lock().into_future());
    case.until_waiting(&test_client.keeper, &name, 1).await;
    for wrong in [guard.token().raw(), guard.token().get() + 1] {
        let target = Target::Token(wrong.to_string().parse().unwrap());
        assert!(!admin.break_lock(&name, target, "", Break::Now).await.unwrap(), "{target:?}");
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A waiter that is broken joins the end of the queue again.
pub async fn a_waiter_that_is_broken_goes_to_the_end(case: &Case) {
    let name = case.name("m");
    let (a, b, c) = (case.keeper().await, case.keeper().await, case.keeper().await);
    let guard = a.mutex(&name).unwrap().lock().await.unwrap();
    let first = tokio::spawn(b.mutex(&name).unwrap().lock().into_future());
    case.until_waiting(&a, &name, 1).await;
    let second = tokio::spawn(c.mutex(&name).unwrap().lock().into_future());
    case.until_waiting(&a, &name, 2).await;
    let line = a.inspect(&name).await.unwrap().waiters;
    let target = Target::IdHash(line[0].id);
    assert!(
        a.admin().unwrap().break_lock(&name, target, "jumped the queue", Break::Now).await.unwrap()
    );
    case.until("the first one is behind the second", async || {
        let now = a.inspect(&name).await.unwrap().waiters;
        now.len() == 2 && now[0].id == line[1].id && now[1].id != line[0].id
    })
    .await;
    guard.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(holder(&a, &name).await, line[1].id);
    second.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
}

/// The break of a claim that does not exist breaks nothing, and is no error.
pub async fn who_is_not_there_is_not_broken(case: &Case) {
    let (name, keeper) = (case.name("m"), case.keeper().await);
    let admin = keeper.admin().unwrap();
    let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
    let (token, id) = (guard.token(), holder(&keeper, &name).await);
    guard.release().await.unwrap();
    let next = keeper.mutex(&name).unwrap().lock().await.unwrap();
    for how in [Break::Mark, Break::Now] {
        for target in [Target::Token(token), Target::IdHash(id)] {
            assert!(!admin.break_lock(&name, target, "late", how).await.unwrap());
            assert!(!admin.break_lock(&case.name("unused"), target, "late", how).await.unwrap());
        }
    }
    assert!(keeper.check_sequencer(&next.sequencer()).await.unwrap());
    next.release().await.unwrap();
}

/// A break that can never succeed is refused.
pub async fn what_can_never_be_broken_is_refused(case: &Case) {
    let (name, admin) = (case.name("m"), case.keeper().await.admin().unwrap());
    let target = Target::Token("7".parse().unwrap());
    let error = admin.break_lock(&name, target, &"x".repeat(1025), Break::Mark).await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Invalid, Some(&name)));
    let error = admin.request_release(&name, &"x".repeat(1025)).await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Invalid, Some(&name)));
    for bad in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(
            admin.break_lock(bad, target, "", Break::Mark).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
        assert_eq!(admin.request_release(bad, "").await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
