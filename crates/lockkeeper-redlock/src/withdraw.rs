//! Withdrawals: of one claim from all nodes, and of all claims of a session that ends.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Result;
use lockkeeper_core::kit::Backoff;
use lockkeeper_core::store::{ClaimKey, Live, SessionId, TOMBSTONE_MIN, Withdrawal};

use crate::RedlockStore;
use crate::claims::{OwnClaim, Said};
use crate::fault::{NodeFault, too_few};
use crate::layout::Keys;
use crate::nodes::Round;
use crate::protocol::Released;

/// A withdrawal waits for a node for at least so long: the claim is to be gone when it ends.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// The pauses before a withdrawal is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn withdraw(
    store: &RedlockStore,
    key: &ClaimKey,
    tombstone: Option<Duration>,
) -> Result<Withdrawal> {
    store.check_process()?;
    let own = store.0.claims.get(&key.id).unwrap_or_else(|| unknown(store, key));
    let (released, faults) = from_all(store, &own, tombstone).await;
    let withdrawal = match released {
        Released::Removed => Withdrawal::Removed,
        Released::Absent => Withdrawal::Absent,
        Released::Unknown => {
            let nodes = &store.0.nodes;
            return Err(too_few(&faults, nodes.len(), nodes.quorum()).with_unknown_effect());
        }
    };
    store.0.claims.forget(&key.id);
    store.0.session_claims.left(key);
    Ok(withdrawal)
}

/// Withdraws a claim from all nodes that may have it. Waits until it is known whether a majority
/// had the claim; the other nodes are asked in the background until they answer, or the claim has
/// expired.
pub(super) async fn from_all(
    store: &RedlockStore,
    own: &Arc<OwnClaim>,
    tombstone: Option<Duration>,
) -> (Released, Vec<(String, NodeFault)>) {
    let mut round = Round::new();
    for node in own.may_be_at() {
        round.add(node, own.withdraw(&store.0.nodes, node, tombstone));
    }
    let faults = collect(store, own, &mut round, |own| own.released().0 == Released::Unknown).await;
    finish(store, own, round);
    (own.released().0, faults)
}

/// Withdraws a claim that no majority has. Waits for the nodes that may have it and are on time: no
/// other client finds the claim there any more. The other nodes are asked in the background. They
/// take the requests in their order, so the next claim of this client finds nothing there either.
pub(super) async fn from_some(store: &RedlockStore, own: &Arc<OwnClaim>) {
    let (nodes, clock) = (&store.0.nodes, &store.0.clock);
    let mut round = Round::new();
    for node in own.may_be_at() {
        round.add(node, own.withdraw(nodes, node, None));
    }
    let until = clock.now() + store.0.setup.node_timeout(own.ttl).min(nodes.on_time());
    let on_time = |node: &usize| !nodes.is_late(*node);
    while own.released().1.iter().any(on_time) {
        let left = until.saturating_since(clock.now());
        if clock.timeout(left, round.next()).await.flatten().is_none() {
            round.waiting().for_each(|node| nodes.was_missed(node));
            break;
        }
    }
    finish(store, own, round);
}

/// Takes the answers while they are wanted, for a limited time.
async fn collect(
    store: &RedlockStore,
    own: &Arc<OwnClaim>,
    round: &mut Round<Said>,
    is_wanted: impl Fn(&OwnClaim) -> bool,
) -> Vec<(String, NodeFault)> {
    let (nodes, clock) = (&store.0.nodes, &store.0.clock);
    let limit = store.0.setup.node_timeout(own.ttl).max(WAIT_MIN);
    let until = clock.now() + limit;
    let mut faults = Vec::new();
    while is_wanted(own) {
        let left = until.saturating_since(clock.now());
        match clock.timeout(left, round.next()).await {
            Some(Some((node, Err(fault)))) => faults.push((node, fault)),
            Some(Some((_, Ok(_)))) => {}
            Some(None) => break,
            None => {
                let mut missing = own.released().1;
                missing.retain(|node| faults.iter().all(|(known, _)| known != node));
                faults.extend(missing.into_iter().map(|node| (node, NodeFault::Silent(limit))));
                break;
            }
        }
    }
    faults.sort_by_key(|(node, _)| *node);
    faults.into_iter().map(|(node, fault)| (nodes.shown(node).to_owned(), fault)).collect()
}

/// Asks the nodes that have not answered, until they have, or nothing can be left of the claim. One
/// task does so for each claim, however often the claim is withdrawn.
fn finish(store: &RedlockStore, own: &Arc<OwnClaim>, mut round: Round<Said>) {
    if own.released().1.is_empty() {
        return;
    }
    let repeats = own.begin_repeating();
    let (own, shared) = (Arc::clone(own), store.clone());
    store.0.runtime.post(async move {
        let clock = shared.0.clock.clone();
        let mut backoff = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        loop {
            while round.next().await.is_some() {}
            let missing = own.released().1;
            if !repeats || missing.is_empty() || !own.may_live(clock.now()) {
                return;
            }
            clock.sleep(backoff.pause()).await;
            for node in missing {
                round.add(node, own.withdraw(&shared.0.nodes, node, None));
            }
        }
    });
}

/// Closes a session. The nodes know no sessions, so the client withdraws each claim. The requests
/// go out together.
pub(super) async fn close(store: &RedlockStore, id: &SessionId, live: &[Live]) -> Result<()> {
    store.check_process()?;
    let all = store.0.session_claims.closing(id, live);
    let mut ended = Round::new();
    for (at, (key, tombstone)) in all.into_iter().enumerate() {
        let store = store.clone();
        ended.add(at, async move { withdraw(&store, &key, tombstone).await });
    }
    let mut result = Ok(());
    while let Some((_, withdrawn)) = ended.next().await {
        result = result.and(withdrawn.map(drop));
    }
    result?;
    store.0.session_claims.close(id, store.0.clock.now() + TOMBSTONE_MIN);
    Ok(())
}

/// A claim that this client does not know.
fn unknown(store: &RedlockStore, key: &ClaimKey) -> Arc<OwnClaim> {
    let keep = store.0.setup.max_keep;
    let at = (store.0.nodes.len(), store.0.clock.now());
    OwnClaim::unknown(key.clone(), Keys::of(&key.name), (keep, keep), at)
}
