//! Claims that are granted, that wait, and that are refused, and the answers to claims that are
//! sent again.

use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::ErrorKind;
use lockkeeper::store::{Meta, Renewal, Verdict};

/// The first claim of a free lock is granted, and the line shows it.
pub async fn a_free_lock_is_granted(case: &Case) {
    let [a] = case.mutexes("lock").await;
    a.granted().await;
    a.sees(&[&a], 1).await;
}

/// While one claim holds the lock, no other claim is granted, neither at once nor in line.
pub async fn a_held_lock_is_not_granted_again(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    c.clone().trying().busy().await;
    b.queued().await;
    a.sees(&[&a, &b], 1).await;
}

/// Two copies of a claim are one claim, with one token.
pub async fn the_same_claim_again_is_the_same_claim(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let token = a.granted().await;
    assert_eq!(a.granted().await, token);
    assert!(matches!(a.resend().await, Verdict::Granted { token: again, .. } if again == token));
    a.sees(&[&a], 1).await;
    a.release().await;
    a.sees(&[], 0).await;
}

/// A waiting claim that is sent again keeps its place.
pub async fn a_waiting_claim_sent_again_keeps_its_place(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    c.queued().await;
    b.queued().await;
    assert!(matches!(b.resend().await, Verdict::Queued { ahead: 1, .. }));
    assert!(matches!(c.resend().await, Verdict::Queued { ahead: 2, .. }));
    a.sees(&[&a, &b, &c], 1).await;
}

/// A grant is sticky: a holder's claim that is sent again is granted again, even if other claims
/// are in line.
pub async fn a_grant_is_sticky(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    let token = a.granted().await;
    b.queued().await;
    assert_eq!(a.granted().await, token);
    c.queued().await;
    assert_eq!(a.granted().await, token);
    a.sees(&[&a, &b, &c], 1).await;
}

/// A re-send that finds nothing is `Gone`, and so is every later copy of that claim.
pub async fn a_resend_that_finds_nothing_spends_the_id(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    assert_eq!(a.resend().await, Verdict::Gone);
    a.gone().await;
    assert_eq!(a.resend().await, Verdict::Gone);
    a.sees(&[], 0).await;
    b.granted().await;
}

/// An attempt that does not join the line leaves nothing behind: no later claim waits for it.
pub async fn a_try_leaves_no_trace(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.clone().trying().busy().await;
    a.sees(&[&a], 1).await;
    a.release().await;
    c.granted().await;
    c.sees(&[&c], 1).await;
}

/// An attempt that was refused may be made again with the same id.
pub async fn a_try_can_be_made_again(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let b = b.trying();
    a.granted().await;
    b.busy().await;
    b.busy().await;
    a.release().await;
    b.granted().await;
}

/// Attempts that are refused do not hinder each other.
pub async fn a_try_is_not_refused_for_another(case: &Case) {
    let reader = case.reader("lock").await;
    let writer = case.writer("lock").await.trying();
    let another = case.reader("lock").await.trying();
    reader.granted().await;
    writer.busy().await;
    another.granted().await;
}

/// A line takes `max_waiters` waiters and no more. A refused claim leaves no trace, and a claim
/// that already waits is not refused.
pub async fn a_full_line_takes_nobody(case: &Case) {
    let [a, b, c, d] = case.mutexes("lock").await.map(|c| c.behind_at_most(2));
    a.granted().await;
    b.queued().await;
    c.queued().await;
    d.refused(ErrorKind::QueueFull).await;
    d.clone().trying().busy().await;
    c.queued().await;
    a.sees(&[&a, &b, &c], 1).await;
    b.release().await;
    d.queued().await;
}

/// Waiters that have died do not fill the line.
pub async fn dead_waiters_do_not_fill_the_line(case: &Case) {
    let [a, live] = case.mutexes("lock").await.map(|c| c.behind_at_most(2));
    let dead = case.mutex("lock", case.short()).await;
    let late = case.writer("lock").await.behind_at_most(2);
    a.granted().await;
    live.queued().await;
    dead.queued().await;
    case.keep_alive(dead.ttls().wait_ttl * 3, &[&live]).await;
    late.queued().await;
    a.sees(&[&a, &live, &late], 1).await;
}

/// A semaphore and a mutex cannot share one name: the second kind is refused, and leaves no trace.
pub async fn a_mutex_and_a_semaphore_do_not_mix(case: &Case) {
    let mutex = case.writer("lock").await;
    let permit = case.permits("lock", 1, 5).await;
    mutex.granted().await;
    let text = permit.refused(ErrorKind::Mismatch).await;
    assert!(text.contains("semaphore") && text.contains("mutex"), "it names both kinds: {text}");
    permit.clone().trying().refused(ErrorKind::Mismatch).await;
    mutex.sees(&[&mutex], 1).await;
    mutex.release().await;
    permit.granted().await;
    mutex.with_new_id().refused(ErrorKind::Mismatch).await;
}

/// A semaphore and readers cannot share one name either, in either order.
pub async fn a_reader_and_a_semaphore_do_not_mix(case: &Case) {
    let reader = case.reader("lock").await;
    let permit = case.permits("lock", 1, 5).await;
    permit.granted().await;
    reader.refused(ErrorKind::Mismatch).await;
    reader.clone().trying().refused(ErrorKind::Mismatch).await;
    permit.sees(&[&permit], 1).await;
    permit.release().await;
    reader.granted().await;
    permit.with_new_id().refused(ErrorKind::Mismatch).await;
}

/// A claim of a lower epoch is refused while a claim of a higher epoch is in line, even if that
/// claim only waits.
pub async fn a_lower_epoch_is_refused(case: &Case) {
    let [old, new, low] = case.mutexes("lock").await;
    let new = new.showing(Meta { epoch: 7, ..Meta::default() });
    old.granted().await;
    new.queued().await;
    let text = low.refused(ErrorKind::Mismatch).await;
    assert!(text.contains('7'), "it names the epoch that others use: {text}");
    assert!(matches!(old.claim().await, Verdict::Granted { .. }), "who is in line already stays");
    old.release().await;
    new.granted().await;
    low.refused(ErrorKind::Mismatch).await;
    new.release().await;
    low.granted().await;
}

/// The answer to a refused claim names the holder, and the time to try again if the store knows it.
pub async fn the_holder_is_shown_to_who_is_turned_away(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let a = a.showing(Meta { owner: "host-1/billing".into(), ..Meta::default() });
    a.granted().await;
    match b.trying().claim().await {
        Verdict::Busy { holder, retry_after, .. } => {
            assert!(holder.is_none_or(|holder| &*holder == "host-1/billing"));
            assert!(retry_after.is_none_or(|after| after <= a.ttls().ttl));
        }
        other => panic!("{other:?}"),
    }
}

/// Two claims of one client count as two: a client does not share a lock with itself.
pub async fn a_client_does_not_share_with_itself(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let b = a.with_new_id();
    a.granted().await;
    b.queued().await;
    a.sees(&[&a, &b], 1).await;
}

fn granted_ttl(verdict: &Verdict) -> Duration {
    match verdict {
        Verdict::Granted { ttl, .. } => *ttl,
        other => panic!("expected a grant, not {other:?}"),
    }
}

/// The answers to a claim and to a renewal have the ttl that the store keeps: the ttl of the first
/// request. A copy with another ttl changes nothing, and its answer shows that.
pub async fn answers_have_the_ttl_that_is_kept(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let kept = a.ttls().ttl;
    assert_eq!(granted_ttl(&a.claim().await), kept);
    for other in [kept * 3, kept / 3] {
        let again = a.clone().lasting(other);
        assert_eq!(granted_ttl(&again.claim().await), kept, "sent again for {other:?}");
        assert_eq!(granted_ttl(&again.resend().await), kept, "sent again for {other:?}");
        assert!(matches!(again.renewed().await.unwrap(), Renewal::Held { ttl, .. } if ttl == kept));
    }
}

/// A claim that waited keeps the ttl of its first request when it holds the lock.
pub async fn a_waiter_keeps_the_ttl_of_its_first_request(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    a.release().await;
    let again = b.clone().lasting(b.ttls().ttl * 3);
    assert_eq!(granted_ttl(&again.claim().await), b.ttls().ttl);
    assert!(
        matches!(again.renewed().await.unwrap(), Renewal::Held { ttl, .. } if ttl == b.ttls().ttl)
    );
}

/// The ttl of an answer does not include the lock-delay, since a guard may not count on the
/// lock-delay.
pub async fn the_ttl_of_answers_is_without_the_lock_delay(case: &Case) {
    let a = case.mutex("lock", Ttls { lock_delay: Duration::from_secs(3), ..Ttls::long() }).await;
    assert_eq!(granted_ttl(&a.claim().await), a.ttls().ttl);
    assert_eq!(granted_ttl(&a.resend().await), a.ttls().ttl);
    assert!(matches!(a.renewed().await.unwrap(), Renewal::Held { ttl, .. } if ttl == a.ttls().ttl));
}
