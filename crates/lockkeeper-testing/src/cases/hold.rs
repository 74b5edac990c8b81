//! The minimum hold in the store, through every change of the claim.

use std::time::Duration;

use crate::{Case, Contender, Ttls};
use lockkeeper::store::{
    Amend, Amended, Evict, Evicted, LiveState, Renewal, Target, Verdict, Withdrawal,
};
use lockkeeper::time::Instant;

/// Longer than every case lasts.
const LONG: Duration = Duration::from_secs(3600);

/// Longer than a short ttl.
fn while_of(case: &Case) -> Duration {
    case.short().ttl * 5 / 2
}

/// Asserts that at least `hold` has passed since `then`. Two clocks may differ by 1 %.
fn passed(case: &Case, then: Instant, hold: Duration) {
    let after = case.since(then);
    assert!(
        after >= hold.mul_f64(0.98),
        "given away after {after:?}, the minimum hold is {hold:?}"
    );
}

async fn evict(contender: &Contender, target: Target, how: Evict) -> Evicted {
    let admin = contender.client.store.admin().unwrap();
    admin.evict(&contender.claim.key.name, &target, how, "op", "stuck").await.unwrap()
}

/// No client gets a released lock before the minimum hold is over, not even the client that has
/// released it.
pub async fn what_was_released_is_kept(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted_for(LONG).await;
    a.release().await;
    a.with_new_id().trying().busy().await;
    b.clone().trying().busy().await;
    let line = b.line().await;
    assert_eq!(line.entries.len(), 1, "{line:?}");
    let entry = &line.entries[0];
    assert_eq!((entry.id, entry.granted, entry.kept), (a.id(), true, true));
    assert!(entry.expires_in.is_some_and(|left| left <= LONG && left > LONG / 2), "{entry:?}");
}

/// When the minimum hold is over, the next claim gets the released lock.
pub async fn what_was_kept_is_the_next_ones(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let before = case.now();
    a.granted_for(while_of(case)).await;
    a.release().await;
    b.acquire().await;
    passed(case, before, while_of(case));
    b.sees(&[&b], 1).await;
}

/// The first waiter gets the lock when the minimum hold is over. The waiter behind it does not.
pub async fn who_waits_gets_it_when_it_is_over(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    let before = case.now();
    a.granted_for(while_of(case)).await;
    b.queued().await;
    c.queued().await;
    let (_, ()) = tokio::join!(b.acquire(), a.release());
    passed(case, before, while_of(case));
    c.queued().await;
    c.sees(&[&b, &c], 1).await;
}

/// A holder that is silent until it expires leaves the rest of the minimum hold.
pub async fn a_dead_holders_lock_is_kept(case: &Case) {
    let silent = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    let before = case.now();
    silent.granted_for(while_of(case)).await;
    next.acquire().await;
    passed(case, before, while_of(case));
    assert!(silent.is_lost().await);
    next.sees(&[&next], 1).await;
}

/// A crashed process leaves the rest of the minimum hold too.
pub async fn a_crashed_holders_lock_is_kept(case: &Case) {
    let name = case.name("lock");
    let client = case.client(case.short()).await;
    let next = case.writer("lock").await;
    let before = case.now();
    client.mutex(&name).granted_for(while_of(case)).await;
    let store = std::sync::Arc::clone(&client.store);
    drop(client);
    case.harness().crash(store).await;
    next.acquire().await;
    passed(case, before, while_of(case));
}

/// The close of a session leaves the rest of a long and of a short minimum hold, whether the close
/// lists the claim or not.
pub async fn a_closed_session_leaves_it(case: &Case) {
    for (name, hold) in [("long", LONG), ("short", Ttls::long().ttl / 2)] {
        for is_named in [true, false] {
            let [a, b] = case.mutexes(&format!("{name}/{is_named}")).await;
            a.granted_for(hold).await;
            let live = [a.live(LiveState::Granted)];
            a.client
                .store
                .close(&a.client.session, if is_named { &live } else { &[] })
                .await
                .unwrap();
            b.clone().trying().busy().await;
            b.sees(&[&a], 1).await;
        }
    }
}

/// After the minimum hold a release frees the lock at once.
pub async fn a_late_release_is_immediate(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted_for(case.short().ttl / 2).await;
    case.pass(case.short().ttl).await;
    a.release().await;
    b.trying().granted().await;
}

/// A waiter has no minimum hold: it would keep the lock from others for nothing.
pub async fn a_waiter_has_none(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    assert_eq!(b.amend(Amend::MinHold(LONG)).await, Amended::NotLive);
    a.release().await;
    b.held().await;
    b.release().await;
    c.trying().granted().await;
}

/// A kept claim belongs to no client: its holder has lost it, and its id is retired.
pub async fn what_is_kept_is_nobodys(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted_for(LONG).await;
    a.release().await;
    assert_eq!(a.withdraw().await, Withdrawal::Absent);
    assert!(matches!(a.renewed().await.unwrap(), Renewal::Lost(None)));
    assert_eq!(a.amend(Amend::MinHold(Duration::ZERO)).await, Amended::NotLive);
    assert_eq!(a.resend().await, Verdict::Gone);
    b.trying().busy().await;
}

/// A kept reader lets readers in, and no writer.
pub async fn a_reader_keeps_its_share(case: &Case) {
    let (a, b) = (case.reader("lock").await, case.reader("lock").await);
    let writer = case.writer("lock").await.trying();
    a.granted_for(LONG).await;
    a.release().await;
    b.granted().await;
    b.release().await;
    writer.busy().await;
    case.reader("lock").await.granted().await;
}

/// A minimum hold keeps only the permits of its claim from others.
pub async fn permits_are_kept_one_by_one(case: &Case) {
    let a = case.permits("permits", 2, 3).await;
    a.granted_for(LONG).await;
    a.release().await;
    // The claims hold their permits to the end of the case: a client that goes away may free its
    // locks.
    let (third, fourth) =
        (case.permits("permits", 1, 3).await, case.permits("permits", 1, 3).await);
    third.granted().await;
    fourth.trying().busy().await;
    third.held().await;
}

/// When the minimum hold is over, the waiters take the permits that were kept.
pub async fn permits_that_were_kept_let_the_next_in(case: &Case) {
    let a = case.permits("permits", 2, 3).await;
    let before = case.now();
    a.granted_for(while_of(case)).await;
    a.release().await;
    case.permits("permits", 2, 3).await.acquire().await;
    passed(case, before, while_of(case));
}

/// A claim that replaces another claim has the minimum hold of that claim.
pub async fn a_replacement_inherits_it(case: &Case) {
    let reader = case.reader("lock").await;
    reader.granted_for(LONG).await;
    let writer = reader.client.mutex(&reader.claim.key.name).replacing(&reader).trying();
    writer.granted().await;
    writer.release().await;
    case.reader("lock").await.trying().busy().await;
    // A reader beside a kept claim is not alone: a kept claim is in the line.
    let other = case.reader("other").await;
    other.granted_for(LONG).await;
    other.release().await;
    let second = case.reader("other").await;
    second.granted().await;
    second.client.mutex(&second.claim.key.name).replacing(&second).trying().busy().await;
    second.held().await;
}

/// A claim that has released a part of its weight keeps only the rest.
pub async fn what_was_lowered_is_kept_as_it_is(case: &Case) {
    let writer = case.writer("lock").await;
    writer.granted_for(LONG).await;
    assert_eq!(writer.amend(Amend::Lower(1)).await, Amended::Done);
    writer.release().await;
    case.reader("lock").await.trying().granted().await;
    case.writer("lock").await.trying().busy().await;
}

/// The minimum hold begins with the request for it, even if the lock was held long before. A
/// further request can only end it later.
pub async fn it_begins_when_it_is_asked_for(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    case.pass(while_of(case)).await;
    let before = case.now();
    assert_eq!(a.amend(Amend::MinHold(while_of(case))).await, Amended::Done);
    assert_eq!(a.amend(Amend::MinHold(Duration::ZERO)).await, Amended::Done);
    a.release().await;
    b.acquire().await;
    passed(case, before, while_of(case));
}

/// A broken claim gets no minimum hold, which would restore the lock that the break has ended.
pub async fn what_is_broken_gets_none(case: &Case) {
    let (marked, next) = (case.mutex("lock", case.short()).await, case.writer("lock").await);
    let token = marked.granted().await;
    assert_eq!(evict(&next, Target::Token(token), Evict::Mark).await, Evicted::Done);
    assert_eq!(marked.amend(Amend::MinHold(LONG)).await, Amended::NotLive);
    next.acquire().await;
}

/// A kept claim belongs to no client, so no claim replaces it.
pub async fn what_is_kept_is_not_replaced(case: &Case) {
    let reader = case.reader("lock").await;
    reader.granted_for(LONG).await;
    let writer = reader.client.mutex(&reader.claim.key.name).replacing(&reader).trying();
    reader.release().await;
    writer.busy().await;
}

/// A break ends the minimum hold: for a holder when its claim expires, for a kept claim at once.
pub async fn a_break_ends_it(case: &Case) {
    let (marked, next) = (case.mutex("marked", case.short()).await, case.writer("marked").await);
    let token = marked.granted_for(LONG).await;
    assert_eq!(evict(&next, Target::Token(token), Evict::Mark).await, Evicted::Done);
    next.acquire().await;
    for how in [Evict::Mark, Evict::Now] {
        let name = if how == Evict::Mark { "one" } else { "two" };
        let (kept, next) = (case.writer(name).await, case.mutex(name, Ttls::long()).await.trying());
        let token = kept.granted_for(LONG).await;
        kept.release().await;
        next.busy().await;
        let target = if how == Evict::Mark { Target::Token(token) } else { Target::Id(kept.id()) };
        assert_eq!(evict(&next, target, how).await, Evicted::Done);
        next.granted().await;
    }
    let (removed, next) = (case.writer("removed").await, case.writer("removed").await.trying());
    let token = removed.granted_for(LONG).await;
    assert_eq!(evict(&next, Target::Token(token), Evict::Now).await, Evicted::Done);
    next.granted().await;
}
