//! Pushes and answers in every order.

use std::pin::pin;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::store::SessionId;

fn key() -> ClaimKey {
    ClaimKey { name: "stock".parse().unwrap(), session: SessionId::random(), id: ClaimId::random() }
}

#[test]
fn a_grant_before_the_answer_to_its_claim_is_not_missed() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    let before = claims.before();
    claims.granted(key.id, 7);
    claims.queued(&key, before, None);
    assert!(matches!(claims.known(key.id), Some(Known::Granted(7))));
}

/// The grant is from an earlier attempt, whose place another server does not have.
#[test]
fn a_grant_that_came_before_its_claim_was_sent_is_not_believed() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.granted(key.id, 7);
    claims.queued(&key, claims.before(), None);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
}

#[test]
fn a_subscription_that_began_meanwhile_makes_its_owner_look_once() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    let before = claims.before();
    claims.subscribed(None);
    claims.queued(&key, before, None);
    let Some(Known::Look(subscription)) = claims.known(key.id) else { panic!("it need not look") };
    // The waiter has asked the server and got no answer, so it asks again.
    assert!(matches!(claims.known(key.id), Some(Known::Look(_))));
    claims.looked(key.id, subscription);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
}

#[test]
fn a_subscription_wakes_only_its_own_waiters() {
    let claims = WaitingClaims::<()>::default();
    let (a, b) = (key(), ClaimKey { name: "other".parse().unwrap(), ..key() });
    for key in [&a, &b] {
        claims.queued(key, claims.before(), None);
    }
    claims.subscribed(Some("stock"));
    assert!(matches!(claims.known(a.id), Some(Known::Look(_))));
    assert!(matches!(claims.known(b.id), Some(Known::Waiting(_))));
}

#[test]
fn who_asked_before_another_subscription_began_asks_again() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    claims.subscribed(None);
    let Some(Known::Look(first)) = claims.known(key.id) else { panic!("it need not look") };
    claims.subscribed(None);
    claims.looked(key.id, first);
    let Some(Known::Look(second)) = claims.known(key.id) else { panic!("it has missed one") };
    claims.looked(key.id, second);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
}

#[test]
fn grants_without_a_waiter_are_bounded_and_displace_no_recent_one() {
    let claims = WaitingClaims::<()>::default();
    for _ in 0..3 * EARLY {
        let (before, key) = (claims.before(), key());
        claims.granted(key.id, 7);
        claims.granted(ClaimId::random(), 1);
        claims.queued(&key, before, None);
        assert!(matches!(claims.known(key.id), Some(Known::Granted(7))));
        claims.left(key.id);
    }
    assert!(claims.lock().early.len() <= EARLY);
    for _ in 0..3 * EARLY {
        claims.granted(ClaimId::random(), 1);
    }
    assert!(claims.lock().early.len() <= EARLY);
}

#[test]
fn a_push_after_a_repeated_claim_is_kept_and_an_earlier_one_is_not() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    claims.granted(key.id, 7);
    let before = claims.before();
    claims.queued(&key, before, None);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
    claims.granted(key.id, 8);
    claims.queued(&key, before, None);
    assert!(matches!(claims.known(key.id), Some(Known::Granted(8))));
}

#[test]
fn a_claim_that_was_withdrawn_before_its_answer_came_has_no_place() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    let asked = claims.asks(key.id);
    claims.left(key.id);
    asked.queued(&key, None);
    assert!(claims.known(key.id).is_none());
    claims.asks(key.id).queued(&key, None);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
    drop(claims.asks(ClaimId::random()));
    assert!(claims.lock().asked.is_empty());
}

/// The script has put the claim in line. Before its answer was processed, the script of another
/// client pushed a wake-up for the claim.
#[test]
fn a_push_to_look_again_before_the_answer_to_its_claim_is_not_missed() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    let asked = claims.asks(key.id);
    claims.again(key.id);
    asked.queued(&key, None);
    assert!(matches!(claims.known(key.id), Some(Known::Again)));
    // The next answer is newer than the push.
    claims.asks(key.id).queued(&key, None);
    assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
    // A claim that was not sent gets no push.
    claims.again(ClaimId::random());
    assert!(claims.lock().asked.is_empty());
}

/// The claim leaves between the look of the waiter and its wait.
#[test]
fn a_waiter_of_a_place_that_was_left_does_not_wait_for_the_news_of_that_place() {
    let (claims, key, clock) = (WaitingClaims::<()>::default(), key(), Clock::boot());
    claims.queued(&key, claims.before(), None);
    let Some(Known::Waiting(place)) = claims.known(key.id) else { panic!("it waits") };
    claims.left(key.id);
    claims.queued(&key, claims.before(), None);
    let news = pin!(claims.news(&clock, clock.now() + Duration::from_secs(3600), key.id, &place));
    let polled = news.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Some(Some(Known::Waiting(_))))), "{polled:?}");
}

/// Looks at the claims when it is dropped.
#[derive(Debug)]
struct Looks(Weak<WaitingClaims<Self>>, Arc<AtomicUsize>);

impl Drop for Looks {
    fn drop(&mut self) {
        let claims = self.0.upgrade().unwrap();
        self.1.fetch_add(usize::from(claims.0.try_lock().is_ok()), Ordering::Relaxed);
    }
}

#[test]
fn what_listens_for_a_claim_is_dropped_when_nothing_is_locked() {
    let (claims, unlocked) = (Arc::new(WaitingClaims::default()), Arc::new(AtomicUsize::new(0)));
    let listens = || Some(Looks(Arc::downgrade(&claims), Arc::clone(&unlocked)));
    let (left, settled, withdrawn) = (key(), key(), key());
    for key in [&left, &settled, &left] {
        claims.asks(key.id).queued(key, listens());
    }
    assert_eq!(unlocked.load(Ordering::Relaxed), 1, "it listens already");
    claims.left(left.id);
    claims.settled(std::iter::once(&settled));
    let asked = claims.asks(withdrawn.id);
    claims.left(withdrawn.id);
    asked.queued(&withdrawn, listens());
    assert_eq!(unlocked.load(Ordering::Relaxed), 4);
}

#[test]
fn who_has_left_the_line_is_not_known_any_more() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    claims.left(key.id);
    assert!(claims.known(key.id).is_none() && claims.lock().claims.is_empty());
    assert!(claims.lock().named.is_empty());
    claims.granted(key.id, 7);
    claims.left(key.id);
    assert!(claims.lock().early.is_empty());
}

/// The clients of these claims have died or lost them, and no code withdraws them.
#[test]
fn claims_that_nobody_waits_for_are_forgotten_and_the_others_are_not() {
    let (claims, awaited, asked_for) = (WaitingClaims::<()>::default(), key(), key());
    claims.queued(&awaited, claims.before(), None);
    let Some(Known::Waiting(_notify)) = claims.known(awaited.id) else { panic!("it waits") };
    for _ in 0..8 * MIN_BEFORE_SWEEP {
        claims.queued(&key(), claims.before(), None);
        claims.queued(&asked_for, claims.before(), None);
    }
    assert!(
        claims.lock().claims.len() <= 2 * MIN_BEFORE_SWEEP + 1,
        "{}",
        claims.lock().claims.len()
    );
    let named = claims.lock().named["stock"].len();
    assert_eq!(named, claims.lock().claims.len());
    assert!([awaited, asked_for].iter().all(|key| claims.lock().claims.contains_key(&key.id)));
}

/// A failover has lost the grant, or the break, of an earlier push.
#[test]
fn a_push_before_a_repeated_claim_does_not_outlive_the_answer() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    for _ in 0..2 {
        claims.granted(key.id, 7);
        claims.again(key.id);
        let before = claims.before();
        assert!(matches!(claims.known(key.id), Some(Known::Granted(7))));
        claims.queued(&key, before, None);
        assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
    }
    let before = claims.before();
    claims.again(key.id);
    claims.queued(&key, before, None);
    assert!(matches!(claims.known(key.id), Some(Known::Again)));
}

#[test]
fn who_holds_the_lock_has_no_place_any_more() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    claims.granted(key.id, 7);
    claims.settled(std::iter::once(&key));
    assert!(claims.known(key.id).is_none() && claims.lock().claims.is_empty());
}

/// In a Cluster each waiting name has a channel of its own. When a connection is lost, each channel
/// ends and begins again, while all waiters of the client stand still.
#[test]
fn the_cost_of_a_channel_does_not_grow_with_the_number_of_names() {
    let events_among = |names: usize| {
        let claims = WaitingClaims::<()>::default();
        for number in 0..names {
            let name = format!("name/{number}").parse().unwrap();
            claims.queued(&ClaimKey { name, ..key() }, claims.before(), None);
        }
        // The shortest of some times does not contain the pauses of a busy machine.
        let once = || {
            let began = std::time::Instant::now();
            (0..20).for_each(|_| claims.subscribed(Some("name%2F7")));
            began.elapsed()
        };
        (0..10).map(|_| once()).min().unwrap()
    };
    let (few, many) = (events_among(100), events_among(10_000));
    assert!(many < 20 * few, "{many:?} among 10000 names, {few:?} among 100");
}

/// A claim has no waiter while it is sent again, as an unused one.
#[test]
fn a_grant_that_is_pushed_while_a_claim_is_sent_again_survives_a_sweep() {
    let (claims, key) = (WaitingClaims::<()>::default(), key());
    claims.queued(&key, claims.before(), None);
    let others = |count: usize| {
        for _ in 0..count {
            claims.queued(&self::key(), claims.before(), None);
        }
    };
    // The first sweep finds no waiter, and the second one would remove the claim.
    others(MIN_BEFORE_SWEEP);
    let asked = claims.asks(key.id);
    claims.granted(key.id, 7);
    claims.again(key.id);
    others(2 * MIN_BEFORE_SWEEP);
    asked.queued(&key, None);
    let known = claims.known(key.id);
    assert!(matches!(known, Some(Known::Granted(7))), "{known:?}");
}
