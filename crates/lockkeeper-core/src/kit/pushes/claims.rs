//! The waiting claims of this client, and the pushes of the server about them.
//!
//! A push may arrive before the answer to its claim, and pushes without a subscription are lost.
//! Neither costs a waiter its grant.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::kit::watchful_until;
use crate::store::{ClaimId, ClaimKey};
use crate::sync::lock;
use crate::time::{Clock, Instant};

/// How many grants are kept that arrived before the answer to their claim. They are rare, and wait
/// for microseconds.
const EARLY: usize = 4096;

/// At least this number of claims is kept without a look for unused ones.
const MIN_BEFORE_SWEEP: usize = 1024;

/// Every claim of this client that is in line. A waiting claim keeps an `L`, the subscription to
/// its pushes. No `L` is dropped while the mutex is locked.
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
    /// The ids of these claims by their encoded name.
    named: HashMap<Arc<str>, HashSet<ClaimId>>,
    /// Grants that were pushed before the answer to their claim was processed: the token, and the
    /// number of the push.
    early: HashMap<ClaimId, (u64, u64)>,
    /// The claims that were sent, have no answer, and were not withdrawn; with the number of a push
    /// that arrived before the answer was processed. After such a push the claim has to be sent
    /// again.
    asked: HashMap<ClaimId, Option<u64>>,
    /// The number of subscriptions so far. Earlier pushes may have been missed.
    subscriptions: u64,
    /// The number of pushes so far.
    pushes: u64,
    /// The number of claims at which the next sweep looks for unused claims.
    look_at: usize,
}

impl<L> Default for WaitingState<L> {
    fn default() -> Self {
        Self {
            claims: HashMap::new(),
            named: HashMap::new(),
            early: HashMap::new(),
            asked: HashMap::new(),
            subscriptions: 0,
            pushes: 0,
            look_at: MIN_BEFORE_SWEEP,
        }
    }
}

/// The subscriptions and pushes before a claim was sent.
#[derive(Clone, Copy, Debug)]
struct Before {
    subscriptions: u64,
    pushes: u64,
}

/// A claim that was sent and has no answer.
#[derive(Debug)]
pub struct Sent<'a, L> {
    claims: &'a WaitingClaims<L>,
    id: ClaimId,
    before: Before,
}

impl<L> Sent<'_, L> {
    /// The server has answered that the claim is in line. A claim that was withdrawn meanwhile is
    /// not added: no code would remove it again.
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
    /// The name as stores encode it.
    name: Arc<str>,
    /// The token, and the number of the push.
    granted: Option<(u64, u64)>,
    /// The number of the subscription after which a grant may have been missed: the status of the
    /// claim must be read from the server.
    look: Option<u64>,
    /// Since this push, the claim has to be sent again.
    again: Option<u64>,
    notify: Arc<Notify>,
    /// Whether no waiter has asked for the claim since the last sweep.
    is_idle: bool,
    _listens: Option<L>,
}

/// The state of a waiting claim.
#[derive(Debug)]
pub enum Known {
    /// The claim was granted, with this token.
    Granted(u64),
    /// The claim may have been granted, and only the server knows. The caller reports its question
    /// to the server with this number, to [`WaitingClaims::looked`].
    Look(u64),
    /// The claim has to be sent again.
    Again,
    /// There is no news. The `Notify` reports a change.
    Waiting(Arc<Notify>),
}

impl<L> WaitingClaims<L> {
    /// A claim is about to be sent.
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

    /// The claim is no longer in line, or another client gets its pushes.
    pub fn left(&self, id: ClaimId) {
        let mut state = self.lock();
        state.early.remove(&id);
        state.asked.remove(&id);
        let left = state.remove(id);
        drop(state);
        if let Some(claim) = left {
            claim.notify.notify_waiters();
        }
    }

    /// These claims hold the lock, and the engine knows it.
    pub fn settled<'a>(&self, held: impl Iterator<Item = &'a ClaimKey>) {
        let mut state = self.lock();
        let settled: Vec<_> = held.filter_map(|key| state.remove(key.id)).collect();
        drop(state);
        for claim in settled {
            claim.notify.notify_waiters();
        }
    }

    /// The state of this claim; `None` if it was never in line here.
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

    /// Waits until this claim no longer waits in this `place`, and returns its state; `None` if
    /// `until` comes first. A claim that has joined the line again has another place, and `place`
    /// is not notified any more.
    ///
    /// # Cancel safety
    /// The future only waits, and may be dropped.
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

    /// The server was asked, and the claim waits. This answers the subscriptions up to this number.
    pub fn looked(&self, id: ClaimId, subscription: u64) {
        if let Some(claim) = self.lock().claims.get_mut(&id) {
            claim.look = claim.look.filter(|latest| *latest != subscription);
        }
    }

    /// The server has granted the claim.
    pub fn granted(&self, id: ClaimId, token: u64) {
        let mut state = self.lock();
        state.pushes += 1;
        let push = state.pushes;
        if let Some(claim) = state.claims.get_mut(&id) {
            claim.granted = Some((token, push));
            return claim.notify.notify_waiters();
        }
        if state.early.len() >= EARLY {
            // The older grants were withdrawn: no waiter asks for them any more. The answers for
            // the latest grants may still be on their way.
            let old = push.saturating_sub(EARLY as u64 / 2);
            state.early.retain(|_, (_, push)| *push > old);
        }
        state.early.insert(id, (token, push));
    }

    /// The claim was broken, or the claim ahead of it ends sooner than before.
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

    /// A subscription has begun, and earlier pushes may not have arrived: all waiters that it
    /// serves ask the server. It serves this encoded name, or all names.
    pub fn subscribed(&self, name: Option<&str>) {
        let mut state = self.lock();
        state.subscriptions += 1;
        let now = state.subscriptions;
        let look = |claim: &mut WaitingClaim<L>| {
            claim.look = Some(now);
            claim.notify.notify_waiters();
        };
        let WaitingState { claims, named, .. } = &mut *state;
        match name {
            None => claims.values_mut().for_each(look),
            Some(name) => {
                for id in named.get(name).into_iter().flatten() {
                    claims.get_mut(id).into_iter().for_each(look);
                }
            }
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

    /// Adds a claim that is in line, according to a server that was asked at `before`. If a
    /// subscription has begun since, a push may have been missed. A push from before the question
    /// is too old: the answer is newer, or another server had the line. Returns an unneeded `L` of
    /// a claim that has one already, since none is dropped under the mutex.
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
                let name = Arc::<str>::from(key.name.encoded());
                self.named.entry(Arc::clone(&name)).or_default().insert(key.id);
                new.insert(WaitingClaim {
                    name,
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

    /// Removes a claim. The caller drops it when the mutex is free.
    fn remove(&mut self, id: ClaimId) -> Option<WaitingClaim<L>> {
        let claim = self.claims.remove(&id)?;
        self.unname(&claim.name, id);
        Some(claim)
    }

    fn unname(&mut self, name: &str, id: ClaimId) {
        if let Some(ids) = self.named.get_mut(name) {
            ids.remove(&id);
            if ids.is_empty() {
                self.named.remove(name);
            }
        }
    }

    /// Removes each claim that has no waiter, and for which none has asked since the last sweep: it
    /// was given up without a withdrawal, and the push about its new client is lost. A waiter that
    /// comes back asks the server. A claim that is being sent again has no waiter, and may have the
    /// push that its waiter will ask for. Returns the claims, to drop them when the mutex is free.
    fn forget_the_idle(&mut self) -> Vec<WaitingClaim<L>> {
        if self.claims.len() < self.look_at {
            return Vec::new();
        }
        let is_awaited = |claim: &WaitingClaim<L>| Arc::strong_count(&claim.notify) > 1;
        let is_idle = |claim: &mut WaitingClaim<L>| {
            !is_awaited(claim) && std::mem::replace(&mut claim.is_idle, true)
        };
        let asked = &self.asked;
        let is_unused = |id: &ClaimId, claim: &mut _| !asked.contains_key(id) && is_idle(claim);
        let idle: Vec<_> = self.claims.extract_if(|id, claim| is_unused(id, claim)).collect();
        self.look_at = MIN_BEFORE_SWEEP.max(self.claims.len() * 2);
        idle.iter().for_each(|(id, claim)| self.unname(&claim.name, *id));
        idle.into_iter().map(|(_, claim)| claim).collect()
    }
}

#[cfg(test)]
mod tests;
