//! Renewals: a majority confirms the token of each claim.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Asked, Broken, Live, LiveState, Renewal, Renewed, SessionId};
use lockkeeper_core::time::Instant;
use lockkeeper_core::{Error, Result};

use crate::RedlockStore;
use crate::claims::{OwnClaim, Said};
use crate::fault::{NodeFault, too_few};
use crate::layout::NodeAnswer;
use crate::nodes::Round;
use crate::protocol::{RenewStep, Renewing};
use crate::withdraw;

/// A part of the ttl in which the nodes may answer a renewal. There is time for another one.
const PART: u32 = 4;

/// What became of the renewal of a claim.
#[derive(Debug)]
pub(super) enum Confirmed {
    Held { token: u64, asked: Option<Asked> },
    Lost(Option<Broken>),
    Failed(Error),
}

pub(super) async fn renew(
    store: &RedlockStore,
    session: &SessionId,
    live: &[Live],
) -> Result<Renewed> {
    store.check_process()?;
    let ids = live.iter().map(|live| &live.key.id);
    store.0.session_claims.renew(session, ids, store.0.clock.now());
    let mut claims = vec![Renewal::Unknown; live.len()];
    let (mut requests, mut sent) = (Vec::new(), Vec::new());
    for (at, Live { key, state }) in live.iter().enumerate() {
        match store.0.claims.get(&key.id) {
            Some(own) if own.token().is_some() => {
                sent.push((at, confirm(store, &own)));
            }
            // The claim is on its way, or its attempt goes on.
            Some(_) => {}
            None if *state == LiveState::InFlight => {}
            None => claims[at] = Renewal::Lost(None),
        }
    }
    // All requests are under way, and all answers have one time limit.
    for (at, confirmed) in sent {
        let confirmed = confirmed.await;
        let Some(own) = store.0.claims.get(&live[at].key.id) else {
            claims[at] = Renewal::Lost(None);
            continue;
        };
        claims[at] = match confirmed {
            Confirmed::Held { token, asked } => {
                requests.extend(asked.map(|asked| (own.key.id, asked)));
                Renewal::Held { token, ttl: own.ttl }
            }
            Confirmed::Lost(broken) => {
                lost(store, &own, broken.as_ref().is_some_and(|broken| !broken.removed));
                Renewal::Lost(broken)
            }
            Confirmed::Failed(error) => Renewal::Failed(error),
        };
    }
    match &claims[..] {
        [Renewal::Failed(error)] => Err(error.clone()),
        _ => Ok(Renewed { claims, server_time: None, requests }),
    }
}

/// Nothing is to be left of a lost claim. The lease of a broken one runs out.
fn lost(store: &RedlockStore, own: &Arc<OwnClaim>, is_broken: bool) {
    if is_broken {
        return;
    }
    let (shared, own) = (store.clone(), Arc::clone(own));
    shared.0.claims.forget(&own.key.id);
    store.0.runtime.post(async move {
        withdraw::from_all(&shared, &own, None).await;
    });
}

/// Asks all nodes whether they hold the claim with its token. The requests have their places in
/// the order when this returns.
pub(super) fn confirm(
    store: &RedlockStore,
    own: &Arc<OwnClaim>,
) -> impl Future<Output = Confirmed> + Send + use<> {
    let (nodes, clock) = (&store.0.nodes, &store.0.clock);
    let token = own.token().unwrap_or_default();
    own.lives(clock.now());
    let mut round = Round::new();
    for node in 0..nodes.len() {
        round.add(node, own.confirm(nodes, node, token));
    }
    let limit = store.0.setup.node_timeout(own.ttl).max(own.ttl / PART);
    let renewal = Confirmation {
        renewing: Renewing::new(nodes.len(), token),
        faults: vec![None; nodes.len()],
        store: store.clone(),
        own: Arc::clone(own),
        asked: None,
        broken: None,
        token,
    };
    let until = clock.now() + limit;
    renewal.run(round, limit, until)
}

/// The renewal of one claim under way.
struct Confirmation {
    store: RedlockStore,
    own: Arc<OwnClaim>,
    token: u64,
    renewing: Renewing,
    faults: Vec<Option<NodeFault>>,
    asked: Option<Asked>,
    broken: Option<Broken>,
}

impl Confirmation {
    async fn run(
        mut self,
        mut round: Round<Said>,
        limit: Duration,
        mut until: Instant,
    ) -> Confirmed {
        let clock = self.store.0.clock.clone();
        loop {
            if let Some(broken) = self.broken {
                return Confirmed::Lost(Some(broken));
            }
            match self.renewing.step() {
                RenewStep::Wait => {
                    let left = until.saturating_since(clock.now());
                    match clock.timeout(left, round.next()).await.flatten() {
                        Some((node, said)) => self.answered(node, said),
                        None => self.silence(limit),
                    }
                }
                RenewStep::Take(nodes) => {
                    self.take(nodes, &mut round);
                    until = clock.now() + limit;
                }
                RenewStep::Held => {
                    self.await_members(&mut round, until).await;
                    self.take_the_others(round);
                    if let Err(error) = self.store.0.nodes.check_members() {
                        return Confirmed::Failed(error.with_unknown_effect());
                    }
                    return Confirmed::Held { token: self.token, asked: self.asked };
                }
                RenewStep::Lost => return Confirmed::Lost(None),
                RenewStep::Unknown => return Confirmed::Failed(self.too_few()),
            }
        }
    }

    /// Waits for the nodes whose clients have had other servers before.
    async fn await_members(&mut self, round: &mut Round<Said>, until: Instant) {
        let store = self.store.clone();
        let (nodes, clock) = (&store.0.nodes, &store.0.clock);
        while round.waiting().any(|node| !nodes.is_unasked(node) && nodes.is_undecided(node)) {
            let left = until.saturating_since(clock.now());
            match clock.timeout(left, round.next()).await.flatten() {
                Some((node, said)) => self.answered(node, said),
                None => return,
            }
        }
    }

    fn answered(&mut self, node: usize, said: Said) {
        match said {
            Ok(NodeAnswer::Held { number, asked }) => {
                self.asked = self.asked.take().or(asked);
                self.renewing.held(node, number);
            }
            Ok(NodeAnswer::Absent | NodeAnswer::Released) => self.renewing.absent(node),
            Ok(NodeAnswer::Busy { .. } | NodeAnswer::Gone) => {
                self.faults[node] = Some(NodeFault::Busy);
                self.renewing.taken(node);
            }
            Ok(NodeAnswer::Broken(broken)) => self.broken = Some(broken),
            Ok(answer) => {
                self.faults[node] = NodeFault::of_answer(&answer);
                self.renewing.unknown(node);
            }
            Err(fault) => {
                self.faults[node] = Some(fault);
                self.renewing.unknown(node);
            }
        }
    }

    fn silence(&mut self, limit: Duration) {
        for node in self.renewing.silence() {
            self.faults[node] = Some(NodeFault::Silent(limit));
        }
    }

    /// Nodes that have lost the claim take it again, unless the client has withdrawn it.
    fn take(&self, nodes: Vec<usize>, round: &mut Round<Said>) {
        for node in nodes {
            if let Some(said) = self.own.take(&self.store.0.nodes, node, self.token) {
                round.add(node, said);
            }
        }
    }

    /// The lock is held. The nodes that have lost it take it again, and nobody waits for them.
    fn take_the_others(&self, mut round: Round<Said>) {
        self.take(self.renewing.without(), &mut round);
        if round.is_empty() {
            return;
        }
        let (store, own, token) = (self.store.clone(), Arc::clone(&self.own), self.token);
        self.store.0.runtime.post(async move {
            while let Some((node, said)) = round.next().await {
                if !matches!(said, Ok(NodeAnswer::Absent)) {
                    continue;
                }
                if let Some(said) = own.take(&store.0.nodes, node, token) {
                    round.add(node, said);
                }
            }
        });
    }

    fn too_few(&self) -> Error {
        let nodes = &self.store.0.nodes;
        let faults: Vec<_> = self
            .faults
            .iter()
            .enumerate()
            .filter_map(|(node, fault)| Some((nodes.shown(node).to_owned(), fault.clone()?)))
            .collect();
        too_few(&faults, nodes.len(), nodes.quorum()).with_unknown_effect()
    }
}
