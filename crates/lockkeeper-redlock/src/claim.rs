//! Claims the lock at a majority of the nodes.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Claim, Meta, SessionSpec, TOMBSTONE_MIN, Verdict, refusal};
use lockkeeper_core::time::{Instant, believed};
use lockkeeper_core::{Effect, Error, Result};

use crate::RedlockStore;
use crate::claims::{OwnClaim, Said, Sending};
use crate::fault::{NodeFault, too_few};
use crate::layout::{NodeAnswer, wait};
use crate::nodes::Round;
use crate::protocol::{Acquire, Step};
use crate::waiters::{Place, bit, with_ticket};
use crate::{renew, withdraw};

pub(super) async fn claim(store: &RedlockStore, claim: &Claim) -> Result<Verdict> {
    store.check_process()?;
    store.0.capabilities.admits(claim.weight, claim.capacity)?;
    store.0.capabilities.check(&SessionSpec::new(claim.ttl, claim.lock_delay))?;
    let (claims, now) = (&store.0.claims, store.0.clock.now());
    let known = claims.get(&claim.key.id);
    if let Some(own) = known.as_ref().filter(|own| own.token().is_some()) {
        return again(store, own).await;
    }
    let is_used_up = known.as_ref().is_some_and(|own| own.is_withdrawn());
    if is_used_up || claim.resend && known.is_none() {
        return retire(store, claim).await;
    }
    store.0.session_claims.claim(claim, now);
    let own = claims.begin(claim, &store.0.nodes, (store.0.setup.max_keep, now));
    own.lives(now);
    let verdict = Attempt::new(store, &own, claim).run(claim).await;
    store.0.session_claims.answered(&claim.key);
    let is_over = match &verdict {
        Ok(verdict) => matches!(verdict, Verdict::Busy { .. } | Verdict::Gone),
        // An earlier copy may have had an effect.
        Err(error) => known.is_none() && error.effect() == Effect::None,
    };
    if is_over {
        claims.forget(&claim.key.id);
        store.0.session_claims.left(&claim.key);
    }
    verdict
}

/// A claim that this client already holds is confirmed, as by a renewal.
async fn again(store: &RedlockStore, own: &Arc<OwnClaim>) -> Result<Verdict> {
    match renew::confirm(store, own).await {
        renew::Confirmed::Held { token, .. } => Ok(Verdict::Granted { token, ttl: own.ttl }),
        // The next claim of this id finds a tombstone.
        renew::Confirmed::Lost(broken) => {
            if broken.is_none_or(|broken| broken.removed) {
                withdraw::from_all(store, own, Some(TOMBSTONE_MIN)).await;
                store.0.claims.forget(&own.key.id);
            }
            Ok(Verdict::Gone)
        }
        renew::Confirmed::Failed(error) => Err(error),
    }
}

/// An id that this client does not know, or has withdrawn, may not be claimed any more.
async fn retire(store: &RedlockStore, claim: &Claim) -> Result<Verdict> {
    withdraw::withdraw(store, &claim.key, Some(TOMBSTONE_MIN)).await?;
    Ok(Verdict::Gone)
}

/// One attempt to acquire, with the answers of the nodes.
struct Attempt<'a> {
    store: &'a RedlockStore,
    own: &'a Arc<OwnClaim>,
    /// The place of this client among the waiters, if it was woken.
    place: Option<Place>,
    acquire: Acquire,
    round: Round<(u64, Said)>,
    faults: Vec<Option<NodeFault>>,
    busy: Vec<Busy>,
    is_gone: bool,
    began: Instant,
}

/// Other claims have the lock on a node.
struct Busy {
    node: usize,
    for_now: Duration,
    at: u64,
    holder: Option<Meta>,
}

impl<'a> Attempt<'a> {
    fn new(store: &'a RedlockStore, own: &'a Arc<OwnClaim>, claim: &Claim) -> Self {
        let (nodes, began) = (store.0.nodes.len(), store.0.clock.now());
        let place = store.0.pushed.waiters.may_claim(&claim.key.name, own.exclusive, began);
        Self {
            store,
            own,
            place,
            acquire: Acquire::new(nodes),
            round: Round::new(),
            faults: vec![None; nodes],
            busy: Vec::new(),
            is_gone: false,
            began,
        }
    }

    async fn run(mut self, claim: &Claim) -> Result<Verdict> {
        let token = |old| self.store.0.claims.get(old).and_then(|own| own.token());
        let replaces = claim.replaces.as_ref().map(|old| (old, token(old).unwrap_or_default()));
        let token = self.pursue(Sending { replaces, ..Sending::default() }).await;
        self.await_members().await;
        if let Err(error) = self.store.0.nodes.check_members() {
            self.forget_the_others();
            self.leave();
            withdraw::from_all(self.store, self.own, Some(TOMBSTONE_MIN)).await;
            return Err(error);
        }
        match token {
            _ if self.is_gone => {
                self.leave();
                withdraw::from_all(self.store, self.own, Some(TOMBSTONE_MIN)).await;
                Ok(Verdict::Gone)
            }
            Some(token) => self.granted(token, claim).await,
            None => self.failed(claim.meta.epoch).await,
        }
    }

    /// Asks the nodes until a majority has one number, or cannot have one any more.
    async fn pursue(&mut self, how: Sending<'_>) -> Option<u64> {
        let (nodes, clock) = (&self.store.0.nodes, &self.store.0.clock);
        let limit = self.store.0.setup.node_timeout(self.own.ttl);
        let waiter = self.place.as_ref().map_or(String::new(), |place| place.waiter.clone());
        let (mut step, mut asked) = (self.acquire.begin(), self.began);
        loop {
            step = match step {
                Step::Ask { floor, nodes: to } => {
                    for node in to {
                        let how = Sending { floor, waiter: &waiter, ..how };
                        let Some(said) = self.own.send(nodes, node, how) else {
                            self.is_gone = true;
                            return None;
                        };
                        self.round.add(node, async move { (floor, said.await) });
                    }
                    asked = clock.now();
                    Step::Wait
                }
                Step::Wait => {
                    let until = asked + self.wait_limit(limit);
                    let left = until.saturating_since(clock.now());
                    match clock.timeout(left, self.round.next()).await.flatten() {
                        Some((node, (floor, said))) => self.answered(node, floor, said),
                        None => self.silence(limit),
                    }
                    if self.is_gone {
                        return None;
                    }
                    self.acquire.step()
                }
                Step::Granted(token) => return Some(token),
                Step::Failed => return None,
            };
        }
    }

    fn answered(&mut self, node: usize, floor: u64, said: Said) {
        let fault = match said {
            Ok(NodeAnswer::Held { number, .. }) => {
                self.faults[node] = None;
                self.busy.retain(|busy| busy.node != node);
                return self.acquire.held(node, floor, number);
            }
            Ok(NodeAnswer::Gone | NodeAnswer::Broken(_)) => {
                self.is_gone = true;
                None
            }
            Ok(answer) => {
                let fault = NodeFault::of_answer(&answer);
                if let NodeAnswer::Busy { for_now, at, holder } = answer {
                    self.busy.retain(|busy| busy.node != node);
                    self.busy.push(Busy { node, for_now, at, holder });
                }
                fault
            }
            Err(fault) => Some(fault),
        };
        self.faults[node] = fault;
        self.acquire.refused(node);
    }

    /// Waits for the nodes whose clients may have other servers, once on each connection, and as
    /// long as a node has said so before.
    async fn await_members(&mut self) {
        let (nodes, clock) = (&self.store.0.nodes, &self.store.0.clock);
        let until = clock.now() + self.store.0.setup.node_timeout(self.own.ttl);
        let is_undecided = |node: &usize| nodes.is_undecided(*node);
        while self.round.waiting().any(|node| is_undecided(&node)) {
            let left = until.saturating_since(clock.now());
            match clock.timeout(left, self.round.next()).await.flatten() {
                Some((node, (floor, said))) => self.answered(node, floor, said),
                None => {
                    let silent = self.round.waiting().filter(is_undecided);
                    return silent.for_each(|node| nodes.was_asked_in_vain(node));
                }
            }
        }
    }

    /// Nobody waits for the answers that are still to come. They may say that the clients of a node
    /// have other servers, or the same again.
    fn forget_the_others(&mut self) {
        let mut round = std::mem::replace(&mut self.round, Round::new());
        if round.waiting().any(|node| self.store.0.nodes.has_to_say(node)) {
            self.store.0.runtime.post(async move { while round.next().await.is_some() {} });
        }
    }

    /// How long the attempt waits for the nodes that have not answered. When a majority has
    /// answered, an on-time node may still decide, and so may a node that has let this client claim
    /// next. Another late node is not waited for: the others get the lock sooner if this attempt
    /// fails.
    fn wait_limit(&self, limit: Duration) -> Duration {
        let nodes = &self.store.0.nodes;
        let is_open = |node: &usize| self.acquire.is_open(*node);
        let is_usable = |node: &usize| matches!(self.faults[*node], None | Some(NodeFault::Busy));
        let free = self.place.as_ref().map_or(0, |place| place.free);
        let all = 0..nodes.len();
        let answered = all.clone().filter(|node| !is_open(node) && is_usable(node)).count();
        if answered < nodes.quorum()
            || all.clone().any(|node| is_open(&node) && free & bit(node) != 0)
        {
            return limit;
        }
        match all.filter(is_open).all(|node| nodes.is_late(node)) {
            true => Duration::ZERO,
            false => limit.min(nodes.on_time()),
        }
    }

    fn silence(&mut self, limit: Duration) {
        for (node, fault) in self.faults.iter_mut().enumerate() {
            if self.acquire.is_open(node) {
                *fault = Some(NodeFault::Silent(limit));
                self.store.0.nodes.was_missed(node);
            }
        }
        self.acquire.silence();
    }

    /// A majority has the token. The clock is read again: a slow attempt may have outlasted the
    /// ttl.
    async fn granted(mut self, token: u64, claim: &Claim) -> Result<Verdict> {
        let (store, own) = (self.store, self.own);
        self.leave();
        let is_late = store.0.clock.now() >= self.began + believed(own.ttl);
        if is_late || !own.granted(token) {
            // The id may have the token on a majority: no later attempt may find it there.
            withdraw::from_all(store, own, Some(TOMBSTONE_MIN)).await;
            return Ok(Verdict::Gone);
        }
        if let Some(old) = claim.replaces.and_then(|old| store.0.claims.get(&old)) {
            withdraw::from_all(store, &old, None).await;
            store.0.claims.forget(&old.key.id);
            store.0.session_claims.left(&old.key);
        }
        self.raise_the_others(token);
        Ok(Verdict::Granted { token, ttl: own.ttl })
    }

    /// Nodes that answer late, or with a lower number, take the token too: so the lock outlasts
    /// the loss of another node. Nobody waits for them.
    fn raise_the_others(&mut self, token: u64) {
        let (store, own) = (self.store.clone(), Arc::clone(self.own));
        let mut round = std::mem::replace(&mut self.round, Round::new());
        let lower = |node: &usize| self.acquire.number(*node).is_some_and(|number| number < token);
        for node in (0..store.0.nodes.len()).filter(lower) {
            if let Some(said) = own.take(&store.0.nodes, node, token) {
                round.add(node, async move { (token, said.await) });
            }
        }
        if round.is_empty() {
            return;
        }
        let (store, own) = (self.store.clone(), Arc::clone(self.own));
        self.store.0.runtime.post(async move {
            while let Some((node, (floor, said))) = round.next().await {
                let is_lower =
                    matches!(said, Ok(NodeAnswer::Held { number, .. }) if number < token);
                if !is_lower || floor >= token {
                    continue;
                }
                if let Some(said) = own.take(&store.0.nodes, node, token) {
                    round.add(node, async move { (token, said.await) });
                }
            }
        });
    }

    /// No majority has the claim. Where others have the lock, nothing is left of the claim.
    async fn failed(mut self, epoch: u16) -> Result<Verdict> {
        let (nodes, store) = (&self.store.0.nodes, self.store);
        self.leave();
        self.await_the_others().await;
        self.forget_the_others();
        let held = (0..nodes.len()).filter(|node| self.acquire.number(*node).is_some()).count();
        if self.busy.is_empty() || held + self.busy.len() < nodes.quorum() {
            return Err(self.too_few());
        }
        withdraw::from_some(store, self.own).await;
        self.busy.sort_by_key(|busy| busy.for_now);
        let holders = self.busy.iter().rev().filter_map(|busy| busy.holder.as_ref());
        let holder = holders.max_by_key(|meta| meta.epoch).cloned();
        if let Some(higher) = holder.as_ref().map(|meta| meta.epoch).filter(|held| *held > epoch) {
            return Err(refusal::epoch(higher, epoch));
        }
        // So many of these nodes have to be free before a majority is.
        let missing = nodes.quorum().saturating_sub(held).clamp(1, self.busy.len());
        let first = self.busy.iter().min_by_key(|busy| busy.node).map_or(0, |busy| busy.at);
        let ticket = self.place.as_ref().map_or(first, |place| place.ticket);
        Ok(Verdict::Busy {
            holder: holder.map(|meta| meta.owner),
            retry_after: Some(self.busy[missing - 1].for_now),
            seen: with_ticket(ticket, self.own.exclusive),
        })
    }

    /// Takes the answers that are still to come, until it is clear whether others have the lock.
    async fn await_the_others(&mut self) {
        let (nodes, clock) = (&self.store.0.nodes, &self.store.0.clock);
        let until = clock.now() + self.store.0.setup.node_timeout(self.own.ttl);
        let held = |acquire: &Acquire| {
            (0..nodes.len()).filter(|node| acquire.number(*node).is_some()).count()
        };
        while self.busy.is_empty() || held(&self.acquire) + self.busy.len() < nodes.quorum() {
            let left = until.saturating_since(clock.now());
            match clock.timeout(left, self.round.next()).await.flatten() {
                Some((node, (floor, said))) => self.answered(node, floor, said),
                None => return,
            }
        }
    }

    /// The place among the waiters is given up: the next wait takes another one with its ticket. A
    /// node that holds the claim has ended the wait itself.
    fn leave(&self) {
        let Some(place) = &self.place else { return };
        let waits = |node: &usize| self.acquire.number(*node).is_none();
        for node in (0..self.store.0.nodes.len()).filter(waits) {
            let left = wait(self.own.keys(), &place.waiter, None);
            drop(self.store.0.nodes.ask(node, |_| left));
        }
    }

    fn too_few(&self) -> Error {
        let nodes = &self.store.0.nodes;
        let faults: Vec<_> = self
            .faults
            .iter()
            .enumerate()
            .filter_map(|(node, fault)| Some((nodes.shown(node).to_owned(), fault.clone()?)))
            .collect();
        let error = too_few(&faults, nodes.len(), nodes.quorum());
        // A node that held the claim, and cannot be asked any more, is among the faults too.
        if self.own.may_be_anywhere() { error.with_unknown_effect() } else { error }
    }
}

/// Acquires a claim of the store itself, and returns its token; `None` if it is busy.
pub(super) async fn alone(store: &RedlockStore, own: &Arc<OwnClaim>) -> Result<Option<u64>> {
    let (nodes, began) = (store.0.nodes.len(), store.0.clock.now());
    let mut attempt = Attempt {
        store,
        own,
        place: None,
        acquire: Acquire::new(nodes),
        round: Round::new(),
        faults: vec![None; nodes],
        busy: Vec::new(),
        is_gone: false,
        began,
    };
    match attempt.pursue(Sending::default()).await {
        Some(token) => Ok(Some(token)),
        None => attempt.failed(0).await.map(|_| None),
    }
}
