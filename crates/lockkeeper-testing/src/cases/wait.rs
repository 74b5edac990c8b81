//! Wake-ups: a wake-up may come too often, but must never be missing.

use std::time::Duration;

use crate::{Case, Contender, Ttls};
use lockkeeper::store::{Interest, LiveState, Renewal, Verdict, Wake};

const SHORTLY: Duration = Duration::from_millis(300);

/// The next waiter learns of the hand-off while it waits.
pub async fn a_hand_off_wakes_the_next(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    let release = async {
        case.pass(SHORTLY).await;
        a.release().await;
    };
    let (token, ()) = tokio::join!(b.wakes_with_its_grant(seen), release);
    assert_eq!(b.held().await, token);
}

/// A wait learns at once of a grant between the claim and the wait.
pub async fn a_grant_before_the_wait_is_not_missed(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    a.release().await;
    b.wakes_with_its_grant(seen).await;
}

/// A release grants the lock to the next waiter, and to no other.
pub async fn a_hand_off_grants_nobody_else(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    let seen = c.queued().await;
    let release = a.release();
    let (wake, ()) = tokio::join!(c.wait(seen, SHORTLY), release);
    assert!(!matches!(wake, Wake::Granted { .. }), "{wake:?}");
    b.sees(&[&b, &c], 1).await;
}

/// A wait without a change ends when its time is over, not before and not much later.
pub async fn a_wait_ends_with_its_time(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    for _ in 0..20 {
        let start = case.now();
        match b.wait(seen, SHORTLY).await {
            Wake::Elapsed => {
                assert!(case.since(start) >= SHORTLY, "it ended after {:?}", case.since(start));
                return;
            }
            Wake::Changed => assert!(case.since(start) < SHORTLY * 20),
            Wake::Granted { .. } => panic!("nobody released the lock"),
        }
    }
    panic!("20 waits ended early though nothing happened");
}

/// A wait for a claim that was removed ends, whether the removal came before the wait or during it.
pub async fn the_wait_of_a_removed_claim_ends(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    let within = Duration::from_secs(4);
    let removal = async {
        case.pass(SHORTLY).await;
        b.release().await;
    };
    let (wake, ()) = tokio::join!(b.wait(seen, within), removal);
    assert_eq!(wake, Wake::Changed);
    assert_eq!(b.wait(seen, within).await, Wake::Changed);
}

/// An observer of a name learns of every change of its line.
pub async fn a_watcher_sees_every_change(case: &Case) {
    let [watcher, a, b] = case.mutexes("lock").await;
    let seen = async || watcher.line().await.revision;
    tokio::join!(watcher.wakes_at_a_change(seen().await), a.granted());
    tokio::join!(watcher.wakes_at_a_change(seen().await), b.queued());
    tokio::join!(watcher.wakes_at_a_change(seen().await), b.release());
    tokio::join!(watcher.wakes_at_a_change(seen().await), a.release());
}

/// A wait from the revision of an earlier look misses nothing that happened in between.
pub async fn a_change_before_the_watch_is_not_missed(case: &Case) {
    let [watcher, a] = case.mutexes("lock").await;
    let empty = watcher.line().await.revision;
    a.granted().await;
    watcher.wakes_at_a_change(empty).await;
    let held = watcher.line().await.revision;
    a.release().await;
    watcher.wakes_at_a_change(held).await;
}

/// A wait that is dropped leaves the line as it was.
pub async fn a_wait_can_be_dropped(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    let before = a.line().await.revision;
    for _ in 0..3 {
        let dropped = case.clock().timeout(SHORTLY, b.wait(seen, Duration::from_secs(4))).await;
        assert!(!matches!(dropped, Some(Wake::Granted { .. })));
    }
    assert_eq!(a.line().await.revision, before);
    a.sees(&[&a, &b], 1).await;
    tokio::join!(b.wakes_with_its_grant(seen), a.release());
}

/// Many waits on many names may go on at once, and each wait learns of its own name.
pub async fn each_waiter_learns_of_its_own_grant(case: &Case) {
    let mut waiting: Vec<(Contender, Contender)> = Vec::new();
    let client = case.client(crate::Ttls::long()).await;
    let other = case.client(crate::Ttls::long()).await;
    for i in 0..8 {
        let name = case.name(&format!("lock-{i}"));
        let (holder, waiter) = (other.mutex(&name), client.mutex(&name));
        holder.granted().await;
        waiter.queued().await;
        waiting.push((holder, waiter));
    }
    for (holder, waiter) in waiting.iter().rev() {
        let seen = waiter.queued().await;
        tokio::join!(waiter.wakes_with_its_grant(seen), holder.release());
    }
    let name = case.name("lock-0");
    let wake = client.store.wait(Interest::Name(&name), Default::default(), Duration::ZERO).await;
    assert!(wake.is_ok(), "a wait of no time is a look");
}

/// A claim that waits and is sent again through another client learns of its grant there.
pub async fn a_claim_sent_again_elsewhere_is_woken_there(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let (first, second) = (case.detached(Ttls::long()).await, case.client(Ttls::long()).await);
    let waiter = first.mutex(&a.claim.key.name);
    a.granted().await;
    waiter.queued().await;
    let elsewhere = waiter.through(&second);
    assert!(matches!(elsewhere.resend().await, Verdict::Queued { .. }));
    let release = async {
        case.pass(SHORTLY).await;
        a.release().await;
    };
    let (token, ()) = tokio::join!(elsewhere.learns_of_its_grant(), release);
    assert_eq!(elsewhere.held().await, token);
}

/// Some requests of the first client do not take the wake-up away from the client that waits: a
/// late copy of the claim, a wait, a renewal, and another claim.
pub async fn no_other_client_takes_a_wake_up_away(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let (first, second) = (case.detached(Ttls::long()).await, case.client(Ttls::long()).await);
    let waiter = first.mutex(&a.claim.key.name);
    a.granted().await;
    waiter.queued().await;
    let elsewhere = waiter.through(&second);
    let others = async {
        case.pass(SHORTLY).await;
        assert!(matches!(waiter.claim().await, Verdict::Queued { .. }), "a late copy");
        assert_eq!(waiter.renewed_as(LiveState::Queued).await.unwrap(), Renewal::Queued);
        waiter.wait(Default::default(), Duration::ZERO).await;
        waiter.with_new_id().queued().await;
        case.pass(SHORTLY).await;
        a.release().await;
    };
    let (token, ()) = tokio::join!(elsewhere.learns_of_its_grant(), others);
    assert_eq!(elsewhere.held().await, token);
}
