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

/// Refuses nodes on which locks cannot be relied on. A majority has to be there; each connection
/// checks its node again.
pub(crate) async fn check(store: &RedlockStore) -> Result<()> {
    let nodes = &store.0.nodes;
    nodes.ready(store.0.setup.hosts.timeout).await;
    let mut round = Round::new();
    for node in 0..nodes.len() {
        round.add(node, nodes.ask(node, |_| Request::command(&[b"INFO"])));
    }
    let mut faults = Vec::new();
    while let Some((node, reply)) = round.next().await {
        match reply {
            Ok(info) => refuse(&Info::of(&info)?, &store.0.setup.waived)
                .map_err(|error| error.at(nodes.shown(node)))?,
            // This does not pass by itself.
            Err(fault @ NodeFault::Twin(_)) => {
                let faults = vec![(nodes.shown(node).to_owned(), fault); nodes.len()];
                return Err(too_few(&faults[..1], 1, 1).without_effect());
            }
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault)),
        }
    }
    if nodes.len() - faults.len() < nodes.quorum() {
        return Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect());
    }
    if store.0.setup.assumes_fresh {
        initialize(store).await?;
    }
    agree(store).await
}

/// All clients need one `max-keep`: a node that has forgotten claims does not count for that time.
async fn agree(store: &RedlockStore) -> Result<()> {
    let (nodes, ours) = (&store.0.nodes, store.0.setup.max_keep);
    // A client that is refused leaves its own on no node.
    for how in [Keeping::Look, Keeping::TakeIfNone] {
        let mut round = Round::new();
        for node in 0..nodes.len() {
            round.add(node, nodes.ask(node, |_| keep(ours, how)));
        }
        while let Some((node, reply)) = round.next().await {
            let theirs = reply.ok().as_ref().and_then(kept);
            if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
                let (problem, remedy) = disagreement(nodes.shown(node), ours, theirs);
                return Err(Error::invalid(problem).with_remedy(remedy));
            }
        }
    }
    Ok(())
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
