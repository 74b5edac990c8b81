//! Releases, withdrawals of waiters, and requests that arrive after a withdrawal.

use std::time::Duration;

use crate::Case;
use lockkeeper::store::{LiveState, Renewal, TOMBSTONE_MIN, Withdrawal};

/// A release frees the lock at once.
pub async fn a_release_frees_the_lock(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    assert_eq!(a.withdraw().await, Withdrawal::Removed);
    b.trying().granted().await;
}

/// A second withdrawal finds no claim, and does not touch the next holder.
pub async fn a_second_withdrawal_does_nothing(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    assert_eq!(a.withdraw().await, Withdrawal::Removed);
    assert_eq!(a.withdraw().await, Withdrawal::Absent);
    assert_eq!(a.withdraw_unsettled().await, Withdrawal::Absent);
    b.held().await;
    b.sees(&[&b], 1).await;
}

/// A withdrawal removes only the id that it names. The withdrawal of another client, of a waiter,
/// or of an earlier attempt does not touch the holder.
pub async fn only_the_id_that_is_named_is_removed(case: &Case) {
    let [a, waiter, stranger] = case.mutexes("lock").await;
    let token = a.granted().await;
    assert_eq!(stranger.withdraw().await, Withdrawal::Absent);
    assert_eq!(a.with_new_id().withdraw().await, Withdrawal::Absent);
    assert_eq!(a.held().await, token);
    waiter.queued().await;
    assert_eq!(waiter.withdraw().await, Withdrawal::Removed);
    assert_eq!(a.held().await, token);
    a.sees(&[&a], 1).await;
}

/// The withdrawal of a dead holder does not touch the next holder.
pub async fn a_dead_holders_withdrawal_does_nothing(case: &Case) {
    let dead = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    dead.granted().await;
    case.pass(dead.ttls().ttl * 2).await;
    let token = next.granted().await;
    // If the session has ended, an error is also an answer.
    let _ = dead.client.store.withdraw(&dead.claim.key, None).await;
    assert_eq!(next.held().await, token);
}

/// A copy of a holder's claim that arrives after its unsettled withdrawal is `Gone`.
pub async fn a_late_copy_of_a_released_claim_is_gone(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    assert_eq!(a.withdraw_unsettled().await, Withdrawal::Removed);
    a.gone().await;
    a.sees(&[], 0).await;
    b.granted().await;
    a.gone().await;
    b.sees(&[&b], 1).await;
}

/// A copy of a waiter's claim that arrives after its unsettled withdrawal is `Gone`.
pub async fn a_late_copy_of_a_waiting_claim_is_gone(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    assert_eq!(b.withdraw_unsettled().await, Withdrawal::Removed);
    b.gone().await;
    a.sees(&[&a], 1).await;
}

/// A claim that arrives only after its own withdrawal is `Gone`, and its renewal is lost.
pub async fn a_claim_after_its_withdrawal_is_gone(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    assert_eq!(a.withdraw_unsettled().await, Withdrawal::Absent);
    a.gone().await;
    a.clone().trying().gone().await;
    assert_eq!(a.renewed_as(LiveState::Granted).await.unwrap(), Renewal::Lost(None));
    a.sees(&[], 0).await;
    b.granted().await;
}

/// A tombstone counts for one id only: the next attempt of the same client is not affected.
pub async fn a_tombstone_is_one_ids(case: &Case) {
    let [a] = case.mutexes("lock").await;
    a.granted().await;
    a.withdraw_unsettled().await;
    a.with_new_id().granted().await;
    a.gone().await;
}

/// A tombstone lasts for its whole time, and a second withdrawal does not shorten it.
pub async fn a_tombstone_lasts_for_its_time(case: &Case) {
    let [a] = case.mutexes("lock").await;
    a.granted().await;
    a.withdraw_unsettled().await;
    a.withdraw().await;
    let second = Some(Duration::from_secs(1));
    a.client.store.withdraw(&a.claim.key, second).await.unwrap();
    case.pass(TOMBSTONE_MIN - Duration::from_secs(1)).await;
    a.gone().await;
}

/// A writer's release wakes the readers behind it up to the next writer, and no waiter beyond.
pub async fn a_release_wakes_all_who_can_go_on(case: &Case) {
    let writer = case.writer("lock").await;
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let next_writer = case.writer("lock").await;
    let r3 = case.reader("lock").await;
    writer.granted().await;
    let seen = [r1.queued().await, r2.queued().await];
    next_writer.queued().await;
    r3.queued().await;
    let release = writer.release();
    tokio::join!(r1.wakes_with_its_grant(seen[0]), r2.wakes_with_its_grant(seen[1]), release);
    r1.sees(&[&r1, &r2, &next_writer, &r3], 2).await;
}

/// A waiter that leaves lets the waiters behind it go on.
pub async fn a_waiter_that_leaves_lets_others_go_on(case: &Case) {
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let writer = case.writer("lock").await;
    r1.granted().await;
    writer.queued().await;
    let seen = r2.queued().await;
    tokio::join!(r2.wakes_with_its_grant(seen), writer.release());
    r1.sees(&[&r1, &r2], 2).await;
}
