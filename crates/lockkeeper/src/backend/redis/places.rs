//! The claims of this client that stand in line, and what the server has pushed about them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::servers::Listens;
use crate::LockName;
use crate::store::{ClaimId, ClaimKey};

/// How many grants are kept that came before the answer to their claim. They are rare, and wait for microseconds.
const EARLY: usize = 4096;

/// Every claim of this client that is in line.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    places: HashMap<ClaimId, Place>,
    /// Grants that were pushed before the answer to their claim was looked at: the token, and the number of the push.
    early: HashMap<ClaimId, (u64, u64)>,
    /// The claims that were sent, are not answered, and were not withdrawn; with the number of a push that came before
    /// the answer was looked at, and makes it worth while to claim again.
    asked: HashMap<ClaimId, Option<u64>>,
    /// How often a subscription has begun. What was pushed before may have been missed.
    subscriptions: u64,
    /// How many pushes there were.
    pushes: u64,
}

/// What had been pushed when a claim was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    subscriptions: u64,
    pushes: u64,
}

/// A claim that was sent and is not answered.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    places: &'a Places,
    id: ClaimId,
    before: Before,
}

impl Asked<'_> {
    /// The server says that the claim stands in line. One that was withdrawn meanwhile has no place: nobody would leave
    /// it.
    pub(super) fn queued(self, key: &ClaimKey, listens: Option<Listens>) {
        let mut inner = self.places.lock();
        if let Some(again) = inner.asked.get(&self.id).copied() {
            inner.queued(key, self.before, again, listens);
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.places.lock().asked.remove(&self.id);
    }
}

#[derive(Debug)]
struct Place {
    name: LockName,
    /// The token, and the number of the push.
    granted: Option<(u64, u64)>,
    /// With the how-manieth subscription it may have been granted without this client's being told.
    look: Option<u64>,
    /// It is worth while to claim again, since this push.
    again: Option<u64>,
    notify: Arc<Notify>,
    _listens: Option<Listens>,
}

/// What is known of a place.
#[derive(Debug)]
pub(super) enum Known {
    /// It was granted.
    Granted(u64),
    /// It may have been granted: the server knows. Whoever has asked says so, with this number.
    Look(u64),
    /// It is worth while to claim again.
    Again,
    /// Nothing yet. Notified when that changes.
    Waiting(Arc<Notify>),
}

impl Places {
    /// A claim is being sent now.
    pub(super) fn asks(&self, id: ClaimId) -> Asked<'_> {
        let mut inner = self.lock();
        inner.asked.insert(id, None);
        Asked { places: self, id, before: inner.before() }
    }

    #[cfg(test)]
    fn before(&self) -> Before {
        self.lock().before()
    }

    #[cfg(test)]
    fn queued(&self, key: &ClaimKey, before: Before, listens: Option<Listens>) {
        self.lock().queued(key, before, None, listens);
    }

    /// The claim does not stand in line any more.
    pub(super) fn left(&self, id: ClaimId) {
        let mut inner = self.lock();
        inner.early.remove(&id);
        inner.asked.remove(&id);
        if let Some(place) = inner.places.remove(&id) {
            place.notify.notify_waiters();
        }
    }

    /// These hold the lock, and the engine knows.
    pub(super) fn settled<'a>(&self, held: impl Iterator<Item = &'a ClaimKey>) {
        let mut inner = self.lock();
        for key in held {
            if let Some(place) = inner.places.remove(&key.id) {
                place.notify.notify_waiters();
            }
        }
    }

    /// What is known of this claim; `None` if it never stood in line here.
    pub(super) fn known(&self, id: ClaimId) -> Option<Known> {
        let inner = self.lock();
        let place = inner.places.get(&id)?;
        Some(match place.granted {
            Some((token, _)) => Known::Granted(token),
            None if place.again.is_some() => Known::Again,
            None => match place.look {
                Some(subscription) => Known::Look(subscription),
                None => Known::Waiting(Arc::clone(&place.notify)),
            },
        })
    }

    /// The server was asked: it waits, as far as subscriptions up to this one are concerned.
    pub(super) fn looked(&self, id: ClaimId, subscription: u64) {
        if let Some(place) = self.lock().places.get_mut(&id) {
            place.look = place.look.filter(|latest| *latest != subscription);
        }
    }

    /// The server has granted it.
    pub(super) fn granted(&self, id: ClaimId, token: u64) {
        let mut inner = self.lock();
        inner.pushes += 1;
        let push = inner.pushes;
        if let Some(place) = inner.places.get_mut(&id) {
            place.granted = Some((token, push));
            return place.notify.notify_waiters();
        }
        if inner.early.len() >= EARLY {
            // Those were withdrawn while they were granted: nobody asks for them any more. The answers that the latest
            // wait for may still be on their way.
            let old = push.saturating_sub(EARLY as u64 / 2);
            inner.early.retain(|_, (_, push)| *push > old);
        }
        inner.early.insert(id, (token, push));
    }

    /// It was broken, or what it waits for ends sooner.
    pub(super) fn again(&self, id: ClaimId) {
        let mut inner = self.lock();
        inner.pushes += 1;
        let push = inner.pushes;
        if let Some(place) = inner.places.get_mut(&id) {
            place.again = Some(push);
            place.notify.notify_waiters();
        } else if let Some(early) = inner.asked.get_mut(&id) {
            *early = Some(push);
        }
    }

    /// A subscription stands, and what was pushed before it did not arrive: everybody whom it serves looks.
    pub(super) fn subscribed(&self, serves: impl Fn(&LockName) -> bool) {
        let mut inner = self.lock();
        inner.subscriptions += 1;
        let now = inner.subscriptions;
        for place in inner.places.values_mut().filter(|place| serves(&place.name)) {
            place.look = Some(now);
            place.notify.notify_waiters();
        }
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn before(&self) -> Before {
        Before { subscriptions: self.subscriptions, pushes: self.pushes }
    }

    /// The claim stands in line, as the server says that was asked when `before` was all that had been heard. Whether a
    /// subscription has begun since decides whether a push can have been missed; a push that came before is of another
    /// time, when the server knew more, or another server had the line.
    fn queued(&mut self, key: &ClaimKey, before: Before, again: Option<u64>, listens: Option<Listens>) {
        let now = self.subscriptions;
        let missed = now != before.subscriptions;
        let granted = self.early.remove(&key.id).filter(|(_, push)| *push > before.pushes);
        match self.places.entry(key.id) {
            Entry::Occupied(mut known) => {
                let place = known.get_mut();
                place.granted = place.granted.filter(|(_, push)| *push > before.pushes).or(granted);
                place.again = place.again.filter(|push| *push > before.pushes).or(again);
                if missed {
                    place.look = Some(now);
                }
            }
            Entry::Vacant(new) => {
                new.insert(Place {
                    name: key.name.clone(),
                    granted,
                    look: missed.then_some(now),
                    again,
                    notify: Arc::default(),
                    _listens: listens,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionId;

    fn key() -> ClaimKey {
        ClaimKey { name: "stock".parse().unwrap(), session: SessionId::random(), id: ClaimId::random() }
    }

    #[test]
    fn a_grant_that_comes_before_the_answer_to_its_claim_is_not_missed() {
        let (places, key) = (Places::default(), key());
        let before = places.before();
        places.granted(key.id, 7);
        places.queued(&key, before, None);
        assert!(matches!(places.known(key.id), Some(Known::Granted(7))));
    }

    /// It is of an attempt before, whose place another server has not.
    #[test]
    fn a_grant_that_came_before_its_claim_was_sent_is_not_believed() {
        let (places, key) = (Places::default(), key());
        places.granted(key.id, 7);
        places.queued(&key, places.before(), None);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn a_subscription_that_began_meanwhile_makes_its_owner_look_once() {
        let (places, key) = (Places::default(), key());
        let before = places.before();
        places.subscribed(|_| true);
        places.queued(&key, before, None);
        let Some(Known::Look(subscription)) = places.known(key.id) else { panic!("it need not look") };
        // Who looked and was not answered looks again.
        assert!(matches!(places.known(key.id), Some(Known::Look(_))));
        places.looked(key.id, subscription);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn a_subscription_wakes_whom_it_serves_and_nobody_else() {
        let places = Places::default();
        let (a, b) = (key(), ClaimKey { name: "other".parse().unwrap(), ..key() });
        for key in [&a, &b] {
            places.queued(key, places.before(), None);
        }
        places.subscribed(|name| name.as_str() == "stock");
        assert!(matches!(places.known(a.id), Some(Known::Look(_))));
        assert!(matches!(places.known(b.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn who_asked_before_another_subscription_began_asks_again() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.before(), None);
        places.subscribed(|_| true);
        let Some(Known::Look(first)) = places.known(key.id) else { panic!("it need not look") };
        places.subscribed(|_| true);
        places.looked(key.id, first);
        let Some(Known::Look(second)) = places.known(key.id) else { panic!("it has missed one") };
        places.looked(key.id, second);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn grants_of_nobody_are_not_kept_for_ever_and_cost_nobody_the_latest_one() {
        let places = Places::default();
        for _ in 0..3 * EARLY {
            let (before, key) = (places.before(), key());
            places.granted(key.id, 7);
            places.granted(ClaimId::random(), 1);
            places.queued(&key, before, None);
            assert!(matches!(places.known(key.id), Some(Known::Granted(7))));
            places.left(key.id);
        }
        assert!(places.lock().early.len() <= EARLY);
        for _ in 0..3 * EARLY {
            places.granted(ClaimId::random(), 1);
        }
        assert!(places.lock().early.len() <= EARLY);
    }

    #[test]
    fn what_is_pushed_after_the_claim_was_sent_again_is_kept_and_the_last_push_before_is_not() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.before(), None);
        places.granted(key.id, 7);
        let before = places.before();
        places.queued(&key, before, None);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
        places.granted(key.id, 8);
        places.queued(&key, before, None);
        assert!(matches!(places.known(key.id), Some(Known::Granted(8))));
    }

    #[test]
    fn a_claim_that_was_withdrawn_before_its_answer_came_has_no_place() {
        let (places, key) = (Places::default(), key());
        let asked = places.asks(key.id);
        places.left(key.id);
        asked.queued(&key, None);
        assert!(places.known(key.id).is_none());
        places.asks(key.id).queued(&key, None);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
        drop(places.asks(ClaimId::random()));
        assert!(places.lock().asked.is_empty());
    }

    /// The script has put it in line, and before its answer was looked at somebody else's script told it to look again.
    #[test]
    fn a_push_to_look_again_that_comes_before_the_answer_to_its_claim_is_not_missed() {
        let (places, key) = (Places::default(), key());
        let asked = places.asks(key.id);
        places.again(key.id);
        asked.queued(&key, None);
        assert!(matches!(places.known(key.id), Some(Known::Again)));
        // The next answer knows of it.
        places.asks(key.id).queued(&key, None);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
        // Who asks for nothing is told nothing.
        places.again(ClaimId::random());
        assert!(places.lock().asked.is_empty());
    }

    #[test]
    fn who_has_left_the_line_is_not_known_any_more() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.before(), None);
        places.left(key.id);
        assert!(places.known(key.id).is_none() && places.lock().places.is_empty());
        places.granted(key.id, 7);
        places.left(key.id);
        assert!(places.lock().early.is_empty());
    }

    /// A failover has lost the grant, or the break, of which it was told.
    #[test]
    fn what_was_pushed_before_the_claim_was_sent_again_does_not_outlive_the_answer() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.before(), None);
        for _ in 0..2 {
            places.granted(key.id, 7);
            places.again(key.id);
            let before = places.before();
            assert!(matches!(places.known(key.id), Some(Known::Granted(7))));
            places.queued(&key, before, None);
            assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
        }
        let before = places.before();
        places.again(key.id);
        places.queued(&key, before, None);
        assert!(matches!(places.known(key.id), Some(Known::Again)));
    }

    #[test]
    fn who_holds_the_lock_has_no_place_any_more() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.before(), None);
        places.granted(key.id, 7);
        places.settled(std::iter::once(&key));
        assert!(places.known(key.id).is_none() && places.lock().places.is_empty());
    }
}
