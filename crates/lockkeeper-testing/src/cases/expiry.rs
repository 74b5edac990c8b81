//! The lifetimes of claims, and their end.
//!
//! A case finds to the millisecond that a claim expires too early. A case finds only roughly that a
//! claim expires late, since a machine may be busy.

use std::time::Duration;

use crate::{Case, Crash, Ttls};
use lockkeeper::store::{Interest, Verdict, Wake};

/// No claim waits longer than this for the end of a claim that is due.
const LOOSELY: Duration = Duration::from_secs(20);

/// A silent holder keeps the lock for its ttl, and then loses it.
pub async fn a_silent_holder_loses_the_lock(case: &Case) {
    let silent = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    let old = silent.granted().await;
    let new = next.acquire().await;
    let held = case.since(silent.proven_alive());
    assert!(held >= silent.ttls().ttl, "the lock was given away after {held:?}");
    assert!(held < silent.ttls().ttl + LOOSELY, "the lock was free only after {held:?}");
    assert!(new > old);
    assert!(silent.is_lost().await);
    next.sees(&[&next], 1).await;
}

/// A wait for a dead claim does not report it as granted, though no client has removed it yet.
pub async fn a_dead_claim_does_not_learn_that_it_holds(case: &Case) {
    let dead = case.mutex("lock", case.short()).await;
    dead.granted().await;
    case.pass(dead.ttls().ttl * 2).await;
    let within = Duration::from_millis(200);
    let claim = Interest::Claim(&dead.claim.key);
    match dead.client.store.wait(claim, Default::default(), within).await {
        Ok(wake) => assert!(!matches!(wake, Wake::Granted { .. }), "{wake:?}"),
        Err(error) => assert_eq!(error.kind(), lockkeeper::ErrorKind::SessionLost),
    }
}

/// An attempt that does not wait finds the lock of a dead holder free.
pub async fn a_dead_holder_is_in_nobodys_way(case: &Case) {
    let silent = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await.trying();
    silent.granted().await;
    next.busy().await;
    case.pass(silent.ttls().ttl * 2).await;
    next.sees(&[], 0).await;
    next.granted().await;
}

/// A lock that was not released is kept for the lock-delay on top of the ttl.
pub async fn the_lock_delay_is_kept(case: &Case) {
    let silent = case.mutex("lock", case.harness().short()).await;
    let next = case.writer("lock").await;
    silent.granted().await;
    next.acquire().await;
    let kept = case.since(silent.proven_alive());
    let Ttls { ttl, lock_delay, .. } = silent.ttls();
    assert!(kept >= ttl + lock_delay, "the lock was given away after {kept:?}");
    assert!(kept < ttl + lock_delay + LOOSELY, "the lock was free only after {kept:?}");
}

/// A release ends the lock-delay at once.
pub async fn a_release_ends_the_lock_delay(case: &Case) {
    let a = case.mutex("lock", case.harness().short()).await;
    let b = case.writer("lock").await;
    a.granted().await;
    a.release().await;
    b.clone().trying().granted().await;
}

/// A holder's claim that is sent again starts its lease again. The owner of the claim counts the
/// lease from that request on.
pub async fn a_resent_claim_starts_its_ttl_again(case: &Case) {
    let a = case.mutex("lock", case.short()).await;
    let other = case.writer("lock").await.trying();
    let token = a.granted().await;
    for _ in 0..3 {
        case.pass(a.ttls().ttl * 3 / 5).await;
        assert!(matches!(a.resend().await, Verdict::Granted { token: same, .. } if same == token));
    }
    case.pass(a.ttls().ttl * 3 / 5).await;
    other.busy().await;
}

/// A waiting claim that is sent again starts its lease again.
pub async fn a_resent_waiting_claim_starts_its_ttl_again(case: &Case) {
    let a = case.writer("lock").await;
    let b = case.mutex("lock", case.short()).await;
    a.granted().await;
    b.queued().await;
    for _ in 0..3 {
        case.pass(b.ttls().wait_ttl * 3 / 5).await;
        assert!(matches!(b.resend().await, Verdict::Queued { .. }));
    }
    a.sees(&[&a, &b], 1).await;
}

/// A silent waiter is gone after its own, shorter lifetime.
pub async fn a_silent_waiter_leaves_the_line(case: &Case) {
    let a = case.writer("lock").await;
    let b = case.mutex("lock", Ttls { wait_ttl: case.short().wait_ttl, ..Ttls::long() }).await;
    a.granted().await;
    b.queued().await;
    a.sees(&[&a, &b], 1).await;
    case.pass(b.ttls().wait_ttl * 3).await;
    a.sees(&[&a], 1).await;
}

/// The queue skips a dead waiter at its head. The hand-off to the waiters behind it loses no time.
pub async fn a_dead_waiter_at_the_head_is_passed_by(case: &Case) {
    let [a, c] = case.mutexes("lock").await;
    let dead = case.mutex("lock", case.short()).await;
    a.granted().await;
    dead.queued().await;
    let seen = c.queued().await;
    case.keep_alive(dead.ttls().wait_ttl * 3, &[&c]).await;
    a.release().await;
    c.wakes_with_its_grant(seen).await;
    c.sees(&[&c], 1).await;
}

/// A dead waiter in the middle of the queue is not shown, and delays no other waiter.
pub async fn a_dead_waiter_in_the_middle_is_passed_by(case: &Case) {
    let [a, b, d] = case.mutexes("lock").await;
    let dead = case.mutex("lock", case.short()).await;
    a.granted().await;
    b.queued().await;
    dead.queued().await;
    d.queued().await;
    case.keep_alive(dead.ttls().wait_ttl * 3, &[&b, &d]).await;
    a.sees(&[&a, &b, &d], 1).await;
    a.release().await;
    b.granted().await;
    b.release().await;
    d.granted().await;
}

/// A dead claim stays dead at any place in the line: neither a renewal nor a re-send revives it.
pub async fn a_dead_waiter_is_not_revived(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let renewed = case.mutex("lock", case.short()).await;
    let resent = case.mutex("lock", case.short()).await;
    a.granted().await;
    b.queued().await;
    renewed.queued().await;
    resent.queued().await;
    case.keep_alive(renewed.ttls().wait_ttl * 3, &[&b]).await;
    assert!(renewed.is_lost().await);
    match resent.send_again().await {
        Ok(verdict) => assert_eq!(verdict, Verdict::Gone),
        Err(error) => assert_eq!(error.kind(), lockkeeper::ErrorKind::SessionLost),
    }
    a.sees(&[&a, &b], 1).await;
}

/// When a claim finds a dead holder, the store grants *and wakes* all claims that can go on, and
/// not only that claim.
pub async fn who_finds_a_dead_holder_wakes_the_others(case: &Case) {
    let dead = case.mutex("lock", case.short()).await;
    let finder = case.reader("lock").await;
    let waiting = case.reader("lock").await;
    dead.granted().await;
    finder.queued().await;
    let seen = waiting.queued().await;
    case.keep_alive(dead.ttls().ttl / 2, &[&finder, &waiting]).await;
    let found = async {
        case.pass(dead.ttls().ttl).await;
        finder.acquire().await
    };
    tokio::join!(waiting.wakes_with_its_grant(seen), found);
}

/// A pushed grant starts no new lease: a silent claim expires when it would have expired as a
/// waiter.
pub async fn a_pushed_grant_gives_no_new_time(case: &Case) {
    let [a, c] = case.mutexes("lock").await;
    let pushed = case.mutex("lock", Ttls { wait_ttl: case.short().wait_ttl, ..Ttls::long() }).await;
    a.granted().await;
    let seen = pushed.queued().await;
    a.release().await;
    pushed.wakes_with_its_grant(seen).await;
    c.acquire().await;
    let lived = case.since(pushed.proven_alive());
    assert!(lived >= pushed.ttls().wait_ttl, "it had {lived:?} only");
    assert!(lived < pushed.ttls().ttl / 2, "the push gave it {lived:?}");
}

/// The renewal after a pushed grant starts the lease of a holder.
pub async fn a_renewed_grantee_has_a_holders_ttl(case: &Case) {
    let [a, c] = case.mutexes("lock").await;
    let pushed = case.mutex("lock", Ttls { wait_ttl: case.short().wait_ttl, ..Ttls::long() }).await;
    a.granted().await;
    let seen = pushed.queued().await;
    a.release().await;
    let token = pushed.wakes_with_its_grant(seen).await;
    assert_eq!(pushed.held().await, token);
    case.pass(pushed.ttls().wait_ttl * 3).await;
    c.trying().busy().await;
    assert_eq!(pushed.held().await, token);
}

/// The locks of a killed process are free: at once if the store notices, and otherwise when they
/// expire.
pub async fn a_crash_frees_what_was_held(case: &Case) {
    let victim = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    victim.granted().await;
    let (start, proven, ttl) = (case.now(), victim.proven_alive(), victim.ttls().ttl);
    let store = std::sync::Arc::clone(&victim.client.store);
    drop(victim);
    case.harness().crash(store).await;
    next.acquire().await;
    match case.harness().on_crash() {
        Crash::Frees => assert!(case.since(start) < LOOSELY),
        Crash::Silent => assert!(case.since(proven) >= ttl && case.since(start) < ttl + LOOSELY),
    }
}

/// A claim that is sent again with a longer ttl ends with its first ttl, as the answer says.
pub async fn a_longer_ttl_of_a_later_copy_does_not_count(case: &Case) {
    let holder = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    holder.granted().await;
    holder.clone().lasting(holder.ttls().ttl * 50).resend().await;
    let sent = case.now();
    next.acquire().await;
    let kept = case.since(sent);
    assert!(kept < holder.ttls().ttl * 20, "the ttl of the copy counts: {kept:?}");
}
