//! The claims of this client that stand in line, and what the server has pushed about them.
//!
//! A push may come before the answer to the claim that it is about, and what was pushed while no
//! subscription stood is lost: this is where neither costs a waiter its grant.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::LockName;
use crate::kit::watchful_until;
use crate::store::{ClaimId, ClaimKey};
use crate::sync::lock;
use crate::time::{Clock, Instant};

/// How many grants are kept that came before the answer to their claim. They are rare, and wait for
/// microseconds.
const EARLY: usize = 4096;

/// So many claims are kept before those that nobody waits for are removed.
const MIN_BEFORE_SWEEP: usize = 1024;

/// Every claim of this client that is in line. Each keeps an `L` for as long as it waits: what
/// subscribes to its pushes. No `L` is dropped while the claims are locked.
#[derive(Debug)]
pub struct WaitingClaims<L>(Mutex<WaitingState<L>>);

impl<L> Default for WaitingClaims<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Debug)]
struct WaitingState<L> {
    claims: HashMap<ClaimId, WaitingClaim<L>>,
    /// Grants that were pushed before the answer to their claim was looked at: the token, and the
    /// number of the push.
    early: HashMap<ClaimId, (u64, u64)>,
    /// The claims that were sent, are not answered, and were not withdrawn; with the number of a
    /// push that came before the answer was looked at, and makes it worth while to claim again.
    asked: HashMap<ClaimId, Option<u64>>,
    /// How often a subscription has begun. What was pushed before may have been missed.
    subscriptions: u64,
    /// How many pushes there were.
    pushes: u64,
    /// When there are so many claims it is looked which of them nobody waits for.
    look_at: usize,
}

impl<L> Default for WaitingState<L> {
    fn default() -> Self {
        Self {
            claims: HashMap::new(),
            early: HashMap::new(),
            asked: HashMap::new(),
            subscriptions: 0,
            pushes: 0,
            look_at: MIN_BEFORE_SWEEP,
        }
    }
}

/// What had been pushed when a claim was sent.
#[derive(Clone, Copy, Debug)]
struct Before {
    subscriptions: u64,
    pushes: u64,
}

/// A claim that was sent and is not answered.
#[derive(Debug)]
pub struct Sent<'a, L> {
    claims: &'a WaitingClaims<L>,
    id: ClaimId,
    before: Before,
}

impl<L> Sent<'_, L> {
    /// The server says that the claim stands in line. One that was withdrawn meanwhile has no
    /// place: nobody would leave it.
    pub fn queued(self, key: &ClaimKey, listens: Option<L>) {
        let mut state = self.claims.lock();
        let again = state.asked.get(&self.id).copied();
        let _idle = state.forget_the_idle();
        let _unused = match again {
            Some(again) => state.queued(key, self.before, again, listens),
            None => listens,
        };
        drop(state);
    }
}

impl<L> Drop for Sent<'_, L> {
    fn drop(&mut self) {
        self.claims.lock().asked.remove(&self.id);
    }
}

#[derive(Debug)]
struct WaitingClaim<L> {
    name: LockName,
    /// The token, and the number of the push.
    granted: Option<(u64, u64)>,
    /// The number of the subscription after which a grant may have been missed: the status of the
    /// claim must be read from the server.
    look: Option<u64>,
    /// It is worth while to claim again, since this push.
    again: Option<u64>,
    notify: Arc<Notify>,
    /// Nobody has asked for it since the last sweep.
    is_idle: bool,
    _listens: Option<L>,
}

/// What is known of a waiting claim.
#[derive(Debug)]
pub enum Known {
    /// It was granted.
    Granted(u64),
    /// It may have been granted: the server knows. Whoever has asked says so, with this number.
    Look(u64),
    /// It is worth while to claim again.
    Again,
    /// Nothing yet. Notified when that changes.
    Waiting(Arc<Notify>),
}

impl<L> WaitingClaims<L> {
    /// A claim is being sent now.
    pub fn asks(&self, id: ClaimId) -> Sent<'_, L> {
        let mut state = self.lock();
        state.asked.insert(id, None);
        Sent { claims: self, id, before: state.before() }
    }

    #[cfg(test)]
    fn before(&self) -> Before {
        self.lock().before()
    }

    #[cfg(test)]
    fn queued(&self, key: &ClaimKey, before: Before, listens: Option<L>) {
        let mut state = self.lock();
        let _idle = state.forget_the_idle();
        let _unused = state.queued(key, before, None, listens);
        drop(state);
    }

    /// The claim does not stand in line any more, or another client receives what is pushed about
    /// it.
    pub fn left(&self, id: ClaimId) {
        let mut state = self.lock();
        state.early.remove(&id);
        state.asked.remove(&id);
        let left = state.claims.remove(&id);
        drop(state);
        if let Some(claim) = left {
            claim.notify.notify_waiters();
        }
    }

    /// These hold the lock, and the engine knows.
    pub fn settled<'a>(&self, held: impl Iterator<Item = &'a ClaimKey>) {
        let mut state = self.lock();
        let settled: Vec<_> = held.filter_map(|key| state.claims.remove(&key.id)).collect();
        drop(state);
        for claim in settled {
            claim.notify.notify_waiters();
        }
    }

    /// What is known of this claim; `None` if it never stood in line here.
    pub fn known(&self, id: ClaimId) -> Option<Known> {
        let mut state = self.lock();
        let claim = state.claims.get_mut(&id)?;
        claim.is_idle = false;
        Some(match claim.granted {
            Some((token, _)) => Known::Granted(token),
            None if claim.again.is_some() => Known::Again,
            None => match claim.look {
                Some(subscription) => Known::Look(subscription),
                None => Known::Waiting(Arc::clone(&claim.notify)),
            },
        })
    }

    /// What is known of this claim once it is known that it does not wait in this `place` any more;
    /// `None` when `until` comes before. A claim that was put in line again has another place, and
    /// `place` is not notified any more.
    pub async fn news(
        &self,
        clock: &Clock,
        until: Instant,
        id: ClaimId,
        place: &Arc<Notify>,
    ) -> Option<Option<Known>> {
        let news = || match self.known(id) {
            Some(Known::Waiting(current)) if Arc::ptr_eq(&current, place) => ready(None),
            known => ready(Some(known)),
        };
        watchful_until(clock, until, place, news).await
    }

    /// The server was asked: it waits, as far as subscriptions up to this one are concerned.
    pub fn looked(&self, id: ClaimId, subscription: u64) {
        if let Some(claim) = self.lock().claims.get_mut(&id) {
            claim.look = claim.look.filter(|latest| *latest != subscription);
        }
    }

    /// The server has granted it.
    pub fn granted(&self, id: ClaimId, token: u64) {
        let mut state = self.lock();
        state.pushes += 1;
        let push = state.pushes;
        if let Some(claim) = state.claims.get_mut(&id) {
            claim.granted = Some((token, push));
            return claim.notify.notify_waiters();
        }
        if state.early.len() >= EARLY {
            // Those were withdrawn while they were granted: nobody asks for them any more. The
            // answers that the latest wait for may still be on their way.
            let old = push.saturating_sub(EARLY as u64 / 2);
            state.early.retain(|_, (_, push)| *push > old);
        }
        state.early.insert(id, (token, push));
    }

    /// It was broken, or what it waits for ends sooner.
    pub fn again(&self, id: ClaimId) {
        let mut state = self.lock();
        state.pushes += 1;
        let push = state.pushes;
        if let Some(claim) = state.claims.get_mut(&id) {
            claim.again = Some(push);
            claim.notify.notify_waiters();
        } else if let Some(early) = state.asked.get_mut(&id) {
            *early = Some(push);
        }
    }

    /// A subscription stands, and what was pushed before it did not arrive: everybody whom it
    /// serves looks.
    pub fn subscribed(&self, serves: impl Fn(&LockName) -> bool) {
        let mut state = self.lock();
        state.subscriptions += 1;
        let now = state.subscriptions;
        for claim in state.claims.values_mut().filter(|claim| serves(&claim.name)) {
            claim.look = Some(now);
            claim.notify.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingState<L>> {
        lock(&self.0)
    }
}

impl<L> WaitingState<L> {
    fn before(&self) -> Before {
        Before { subscriptions: self.subscriptions, pushes: self.pushes }
    }

    /// The claim stands in line, as the server says that was asked when `before` was all that had
    /// been heard. Whether a subscription has begun since decides whether a push can have been
    /// missed; a push that came before is of another time, when the server knew more, or another
    /// server had the line. Returns what the claim does not need: another `L` listens for it, and
    /// none is dropped under the mutex.
    fn queued(
        &mut self,
        key: &ClaimKey,
        before: Before,
        again: Option<u64>,
        listens: Option<L>,
    ) -> Option<L> {
        let now = self.subscriptions;
        let missed = now != before.subscriptions;
        let granted = self.early.remove(&key.id).filter(|(_, push)| *push > before.pushes);
        match self.claims.entry(key.id) {
            Entry::Occupied(mut known) => {
                let claim = known.get_mut();
                claim.is_idle = false;
                claim.granted = claim.granted.filter(|(_, push)| *push > before.pushes).or(granted);
                claim.again = claim.again.filter(|push| *push > before.pushes).or(again);
                if missed {
                    claim.look = Some(now);
                }
                listens
            }
            Entry::Vacant(new) => {
                new.insert(WaitingClaim {
                    name: key.name.clone(),
                    granted,
                    look: missed.then_some(now),
                    again,
                    notify: Arc::default(),
                    is_idle: false,
                    _listens: listens,
                });
                None
            }
        }
    }

    /// Forgets each claim that nobody waits for, or has asked for since the last sweep: it was
    /// given up without a withdrawal, and the push that another client has it is lost. Who waits
    /// for it after all asks the server. Returns them, to be dropped when the mutex is free.
    fn forget_the_idle(&mut self) -> Vec<WaitingClaim<L>> {
        if self.claims.len() < self.look_at {
            return Vec::new();
        }
        let is_awaited = |claim: &WaitingClaim<L>| Arc::strong_count(&claim.notify) > 1;
        let is_idle = |claim: &mut WaitingClaim<L>| {
            !is_awaited(claim) && std::mem::replace(&mut claim.is_idle, true)
        };
        let idle =
            self.claims.extract_if(|_, claim| is_idle(claim)).map(|(_, claim)| claim).collect();
        self.look_at = MIN_BEFORE_SWEEP.max(self.claims.len() * 2);
        idle
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::store::SessionId;

    fn key() -> ClaimKey {
        ClaimKey {
            name: "stock".parse().unwrap(),
            session: SessionId::random(),
            id: ClaimId::random(),
        }
    }

    #[test]
    fn a_grant_before_the_answer_to_its_claim_is_not_missed() {
        let (claims, key) = (WaitingClaims::<()>::default(), key());
        let before = claims.before();
        claims.granted(key.id, 7);
        claims.queued(&key, before, None);
        assert!(matches!(claims.known(key.id), Some(Known::Granted(7))));
    }

    /// It is of an attempt before, whose place another server has not.
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
        claims.subscribed(|_| true);
        claims.queued(&key, before, None);
        let Some(Known::Look(subscription)) = claims.known(key.id) else {
            panic!("it need not look")
        };
        // Who looked and was not answered looks again.
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
        claims.subscribed(|name| name.as_str() == "stock");
        assert!(matches!(claims.known(a.id), Some(Known::Look(_))));
        assert!(matches!(claims.known(b.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn who_asked_before_another_subscription_began_asks_again() {
        let (claims, key) = (WaitingClaims::<()>::default(), key());
        claims.queued(&key, claims.before(), None);
        claims.subscribed(|_| true);
        let Some(Known::Look(first)) = claims.known(key.id) else { panic!("it need not look") };
        claims.subscribed(|_| true);
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

    /// The script has put it in line, and before its answer was looked at somebody else's script
    /// told it to look again.
    #[test]
    fn a_push_to_look_again_before_the_answer_to_its_claim_is_not_missed() {
        let (claims, key) = (WaitingClaims::<()>::default(), key());
        let asked = claims.asks(key.id);
        claims.again(key.id);
        asked.queued(&key, None);
        assert!(matches!(claims.known(key.id), Some(Known::Again)));
        // The next answer knows of it.
        claims.asks(key.id).queued(&key, None);
        assert!(matches!(claims.known(key.id), Some(Known::Waiting(_))));
        // Who asks for nothing is told nothing.
        claims.again(ClaimId::random());
        assert!(claims.lock().asked.is_empty());
    }

    /// Between the look of the waiter and its wait.
    #[test]
    fn a_waiter_of_a_place_that_was_left_does_not_wait_for_the_news_of_that_place() {
        let (claims, key, clock) = (WaitingClaims::<()>::default(), key(), Clock::boot());
        claims.queued(&key, claims.before(), None);
        let Some(Known::Waiting(place)) = claims.known(key.id) else { panic!("it waits") };
        claims.left(key.id);
        claims.queued(&key, claims.before(), None);
        let news =
            pin!(claims.news(&clock, clock.now() + Duration::from_secs(3600), key.id, &place));
        let polled = news.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Some(Some(Known::Waiting(_))))), "{polled:?}");
    }

    /// Looks when it is dropped.
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
        let (claims, unlocked) =
            (Arc::new(WaitingClaims::default()), Arc::new(AtomicUsize::new(0)));
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
        claims.granted(key.id, 7);
        claims.left(key.id);
        assert!(claims.lock().early.is_empty());
    }

    /// Their clients have died or lost them, and nobody withdraws them.
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
        assert!([awaited, asked_for].iter().all(|key| claims.lock().claims.contains_key(&key.id)));
    }

    /// A failover has lost the grant, or the break, of which it was told.
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
}
