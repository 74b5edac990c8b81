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
    /// Grants that were pushed before the answer to their claim was looked at.
    early: HashMap<ClaimId, u64>,
    /// How often a subscription has begun. What was pushed before may have been missed.
    subscriptions: u64,
}

#[derive(Debug)]
struct Place {
    name: LockName,
    granted: Option<u64>,
    /// With the how-manieth subscription it may have been granted without this client's being told.
    look: Option<u64>,
    /// It is worth while to claim again.
    again: bool,
    bell: Arc<Notify>,
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
    /// Nothing yet. It rings when that changes.
    Waiting(Arc<Notify>),
}

impl Places {
    /// How many subscriptions have begun so far: to be asked before a claim is sent.
    pub(super) fn subscriptions(&self) -> u64 {
        self.lock().subscriptions
    }

    /// The claim stands in line. Whether a subscription has begun since `subscriptions` were counted decides whether a
    /// push can have been missed.
    pub(super) fn queued(&self, key: &ClaimKey, subscriptions: u64, listens: Option<Listens>) {
        let mut inner = self.lock();
        let now = inner.subscriptions;
        let missed = now != subscriptions;
        let granted = inner.early.remove(&key.id);
        match inner.places.entry(key.id) {
            Entry::Occupied(mut known) => {
                let place = known.get_mut();
                place.granted = place.granted.or(granted);
                if missed {
                    place.look = Some(now);
                }
            }
            Entry::Vacant(new) => {
                new.insert(Place {
                    name: key.name.clone(),
                    granted,
                    look: missed.then_some(now),
                    again: false,
                    bell: Arc::default(),
                    _listens: listens,
                });
            }
        }
    }

    /// The claim does not stand in line any more.
    pub(super) fn left(&self, id: ClaimId) {
        let mut inner = self.lock();
        inner.early.remove(&id);
        if let Some(place) = inner.places.remove(&id) {
            place.bell.notify_waiters();
        }
    }

    /// What is known of this claim; `None` if it never stood in line here.
    pub(super) fn known(&self, id: ClaimId) -> Option<Known> {
        let inner = self.lock();
        let place = inner.places.get(&id)?;
        Some(match place.granted {
            Some(token) => Known::Granted(token),
            None if place.again => Known::Again,
            None => match place.look {
                Some(subscription) => Known::Look(subscription),
                None => Known::Waiting(Arc::clone(&place.bell)),
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
        if let Some(place) = inner.places.get_mut(&id) {
            place.granted = Some(token);
            return place.bell.notify_waiters();
        }
        if inner.early.len() >= EARLY {
            // Those were withdrawn while they were granted: nobody asks for them any more.
            inner.early.clear();
        }
        inner.early.insert(id, token);
    }

    /// It was broken.
    pub(super) fn broken(&self, id: ClaimId) {
        if let Some(place) = self.lock().places.get_mut(&id) {
            place.again = true;
            place.bell.notify_waiters();
        }
    }

    /// A subscription stands, and what was pushed before it did not arrive: everybody whom it serves looks.
    pub(super) fn subscribed(&self, serves: impl Fn(&LockName) -> bool) {
        let mut inner = self.lock();
        inner.subscriptions += 1;
        let now = inner.subscriptions;
        for place in inner.places.values_mut().filter(|place| serves(&place.name)) {
            place.look = Some(now);
            place.bell.notify_waiters();
        }
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let before = places.subscriptions();
        places.granted(key.id, 7);
        places.queued(&key, before, None);
        assert!(matches!(places.known(key.id), Some(Known::Granted(7))));
    }

    #[test]
    fn a_subscription_that_began_meanwhile_makes_its_owner_look_once() {
        let (places, key) = (Places::default(), key());
        let before = places.subscriptions();
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
            places.queued(key, places.subscriptions(), None);
        }
        places.subscribed(|name| name.as_str() == "stock");
        assert!(matches!(places.known(a.id), Some(Known::Look(_))));
        assert!(matches!(places.known(b.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn who_asked_before_another_subscription_began_asks_again() {
        let (places, key) = (Places::default(), key());
        places.queued(&key, places.subscriptions(), None);
        places.subscribed(|_| true);
        let Some(Known::Look(first)) = places.known(key.id) else { panic!("it need not look") };
        places.subscribed(|_| true);
        places.looked(key.id, first);
        let Some(Known::Look(second)) = places.known(key.id) else { panic!("it has missed one") };
        places.looked(key.id, second);
        assert!(matches!(places.known(key.id), Some(Known::Waiting(_))));
    }

    #[test]
    fn grants_of_nobody_are_not_kept_for_ever() {
        let places = Places::default();
        for _ in 0..3 * EARLY {
            places.granted(ClaimId::random(), 1);
        }
        assert!(places.lock().early.len() <= EARLY);
    }
}
