//! Checks the nodes when the store is opened.

use lockkeeper_core::Result;
use lockkeeper_redis_client::checks::{Info, refuse};
use lockkeeper_redis_client::fault;
use lockkeeper_redis_client::wire::Request;

use crate::RedlockStore;
use crate::fault::{NodeFault, too_few};
use crate::layout::init;
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
    Ok(())
}

/// The claims of each node that is there count from now on: it has forgotten none.
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
        initialized.push(nodes.shown(node).to_owned());
    }
    Ok(initialized)
}
