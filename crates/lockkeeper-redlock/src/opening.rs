//! Checks the nodes when the store is opened.

use std::time::Duration;

use lockkeeper_core::duration::format_duration;
use lockkeeper_core::{Error, Result};
use lockkeeper_redis_client::checks::{Info, refuse};
use lockkeeper_redis_client::fault;
use lockkeeper_redis_client::wire::Request;

use crate::RedlockStore;
use crate::fault::{NodeFault, too_few};
use crate::layout::{Keeping, init, keep, kept};
use crate::nodes::Round;

/// When a majority has answered, the other nodes get as long again, within these limits.
const REST: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Refuses nodes on which locks cannot be relied on. A majority has to be there. A silent node does
/// not hold the opening up: it counts when it answers.
pub(crate) async fn check(store: &RedlockStore) -> Result<()> {
    let (nodes, setup) = (&store.0.nodes, &store.0.setup);
    let (usable, faults) = answered(store).await?;
    if usable.len() < nodes.quorum() {
        return Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect());
    }
    if setup.assumes_fresh {
        initialize(store).await?;
    }
    let mut taken = Round::new();
    for node in usable {
        taken.add(node, nodes.ask(node, |_| keep(setup.max_keep, Keeping::TakeIfNone)));
    }
    while let Some((node, reply)) = taken.next().await {
        // Another client may have been the first one meanwhile.
        let theirs = reply.ok().as_ref().and_then(kept).filter(|theirs| *theirs != setup.max_keep);
        if let Some(theirs) = theirs {
            return Err(disagrees(store, node, theirs));
        }
    }
    Ok(())
}

/// The nodes that can be used, and what is wrong with others. Waits for a majority, and then a
/// moment for the others. The caller that initializes the nodes waits for all.
///
/// # Errors
/// Of one node, if it does not pass by itself.
async fn answered(store: &RedlockStore) -> Result<(Vec<usize>, Vec<(String, NodeFault)>)> {
    let (nodes, clock) = (&store.0.nodes, &store.0.clock);
    let enough = if store.0.setup.assumes_fresh { nodes.len() } else { nodes.quorum() };
    let (began, limit) = (clock.now(), store.0.setup.opening_limit());
    let mut until = began + limit;
    let mut round = Round::new();
    for node in 0..nodes.len() {
        let store = store.clone();
        round.add(node, async move { examined(&store, node).await });
    }
    let (mut usable, mut faults) = (Vec::new(), Vec::new());
    while let Some(Some((node, answer))) =
        clock.timeout(until.saturating_since(clock.now()), round.next()).await
    {
        match answer? {
            Ok(()) => usable.push(node),
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault)),
        }
        if usable.len() == enough {
            let now = clock.now();
            let [least, most] = REST;
            until = until.min(now + now.saturating_since(began).clamp(least, most));
        }
    }
    let silent = |node| (nodes.shown(node).to_owned(), NodeFault::Silent(limit));
    faults.extend(round.waiting().map(silent));
    Ok((usable, faults))
}

/// Whether a node can be used, or why not. An error does not pass by itself.
async fn examined(store: &RedlockStore, node: usize) -> Result<Result<(), NodeFault>> {
    let (nodes, ours) = (&store.0.nodes, store.0.setup.max_keep);
    // The reason for a failure comes with the request.
    drop(nodes.link(node).ready().await);
    match nodes.ask(node, |_| Request::command(&[b"INFO"])).await {
        Ok(info) => refuse(&Info::of(&info)?, &store.0.setup.waived)
            .map_err(|error| error.at(nodes.shown(node)))?,
        Err(fault @ NodeFault::Twin(_)) => {
            let fault = (nodes.shown(node).to_owned(), fault);
            return Err(too_few(&[fault], 1, 1).without_effect());
        }
        Err(fault) => return Ok(Err(fault)),
    }
    match nodes.ask(node, |_| keep(ours, Keeping::Look)).await {
        Ok(theirs) => match kept(&theirs).filter(|theirs| *theirs != ours) {
            Some(theirs) if !store.0.setup.assumes_fresh => Err(disagrees(store, node, theirs)),
            _ => Ok(Ok(())),
        },
        Err(fault) => Ok(Err(fault)),
    }
}

fn disagrees(store: &RedlockStore, node: usize, theirs: Duration) -> Error {
    let (problem, remedy) = disagreement(store.0.nodes.shown(node), store.0.setup.max_keep, theirs);
    Error::invalid(problem).with_remedy(remedy)
}

/// What is wrong with a node whose clients have another `max-keep`, and the remedy.
pub(crate) fn disagreement(node: &str, ours: Duration, theirs: Duration) -> (String, String) {
    let (ours, theirs) = (format_duration(ours), format_duration(theirs));
    (
        format!("max-keep={ours} here, and the clients of {node} have max-keep={theirs}"),
        format!("max-keep={theirs}; or lockkeeper doctor --init, while no client uses the servers"),
    )
}

/// The claims of each node that is there count from now on: it has forgotten none. The `max-keep`
/// of this client is that of all clients.
pub(crate) async fn initialize(store: &RedlockStore) -> Result<Vec<String>> {
    let nodes = &store.0.nodes;
    let mut initialized = Vec::new();
    for node in 0..nodes.len() {
        let Ok((_, run)) = nodes.run(node) else { continue };
        let reply = nodes.link(node).send(init(&run)).await.map_err(fault::of)?;
        if let Some(answer) = crate::layout::foreign_answer(&reply) {
            let fault = NodeFault::of_answer(&answer).unwrap_or(NodeFault::Busy);
            let faults = [(nodes.shown(node).to_owned(), fault)];
            return Err(too_few(&faults, 1, 1).without_effect());
        }
        let keeping = keep(store.0.setup.max_keep, Keeping::Take);
        nodes.link(node).send(keeping).await.map_err(fault::of)?;
        initialized.push(nodes.shown(node).to_owned());
    }
    Ok(initialized)
}
