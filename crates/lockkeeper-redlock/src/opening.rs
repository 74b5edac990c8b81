//! Checks the nodes when the store is opened.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper_core::duration::format_duration;
use lockkeeper_core::{Error, ErrorKind, Result};
use lockkeeper_redis_client::checks::{Info, refuse};
use lockkeeper_redis_client::fault;
use lockkeeper_redis_client::wire::Request;

use crate::RedlockStore;
use crate::fault::{NodeFault, other_members, too_few};
use crate::layout::{Counts, Keeping, Kept, init, keep, kept};
use crate::nodes::Round;
use crate::protocol::quorum;

/// When a majority has answered, the other nodes get as long again, within these limits.
const REST: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Refuses nodes on which locks cannot be relied on. A majority has to be there. A silent node does
/// not hold the opening up: it counts when it answers. Returns the nodes that were initialized.
pub(crate) async fn check(store: &RedlockStore) -> Result<Vec<String>> {
    let (nodes, setup) = (&store.0.nodes, &store.0.setup);
    let (usable, faults) = answered(store).await?;
    if usable.len() < nodes.quorum() {
        return Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect());
    }
    for (node, fault) in &faults {
        let said = fault.shown_at(node);
        tracing::warn!(target: "lockkeeper", store = %store, "a server of no use: {said}");
    }
    let initialized = match setup.assumes_fresh {
        true => initialize(store).await?,
        false => Vec::new(),
    };
    // One after the other, in an order that all clients have: of two first clients with different
    // settings, one stops at a node, and the other finds its own on all nodes.
    let mut new: Vec<_> = usable.into_iter().filter(|(_, is_new)| *is_new).collect();
    new.sort_by_key(|(node, _)| nodes.shown(*node).to_owned());
    for (node, _) in new {
        let Ok(reply) = nodes.ask(node, |_| keep(setup.max_keep, Keeping::TakeIfNone)).await else {
            continue;
        };
        fits(store, node, &kept(&reply).unwrap_or_default())?;
    }
    Ok(initialized)
}

/// The nodes that can be used, and what is wrong with others. Waits for a majority, and then a
/// moment for the others. The caller that initializes the nodes waits for all. With each node comes
/// whether it is new: it has no `max-keep`.
///
/// # Errors
/// Of one node, if it does not pass by itself.
async fn answered(store: &RedlockStore) -> Result<(Vec<(usize, bool)>, Vec<(String, NodeFault)>)> {
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
            Ok(is_new) => usable.push((node, is_new)),
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

/// Whether a node that can be used is new, or why it cannot be used. An error does not pass by
/// itself.
async fn examined(store: &RedlockStore, node: usize) -> Result<Result<bool, NodeFault>> {
    let (nodes, max_keep) = (&store.0.nodes, store.0.setup.max_keep);
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
    match nodes.ask(node, |_| keep(max_keep, Keeping::Look)).await {
        Ok(_) if store.0.setup.assumes_fresh => Ok(Ok(false)),
        Ok(theirs) => {
            let theirs = kept(&theirs).unwrap_or_default();
            fits(store, node, &theirs).map(|()| Ok(theirs.max_keep.is_none()))
        }
        Err(fault) => Ok(Err(fault)),
    }
}

/// # Errors
/// `Invalid` if the other clients of this node have another `max-keep`, or other servers.
fn fits(store: &RedlockStore, node: usize, theirs: &Kept) -> Result<()> {
    let (ours, shown) = (store.0.setup.max_keep, store.0.nodes.shown(node));
    if let Some(theirs) = theirs.max_keep.filter(|theirs| *theirs != ours) {
        let (problem, remedy) = disagreement(shown, ours, theirs);
        return Err(Error::invalid(problem).with_remedy(remedy));
    }
    match theirs.members.as_deref().filter(|theirs| *theirs != store.0.nodes.members()) {
        Some(theirs) => Err(other_members(theirs).at(shown)),
        None => Ok(()),
    }
}

/// What is wrong with a node whose clients have another `max-keep`, and the remedy.
pub(crate) fn disagreement(node: &str, ours: Duration, theirs: Duration) -> (String, String) {
    let (ours, theirs) = (format_duration(ours), format_duration(theirs));
    (
        format!("max-keep={ours} here, and the clients of {node} have max-keep={theirs}"),
        format!("max-keep={theirs}; or lockkeeper doctor --init, while no client uses the servers"),
    )
}

/// The `max-keep` and the servers of this client are those of all clients from now on. The claims
/// of each node that is there count: it has forgotten none. Where the servers change, they count
/// when the locks of before have ended. Returns the nodes.
async fn initialize(store: &RedlockStore) -> Result<Vec<String>> {
    let (nodes, max_keep) = (&store.0.nodes, store.0.setup.max_keep);
    let mut there = Vec::new();
    for node in 0..nodes.len() {
        let Ok((_, run)) = nodes.run(node) else { continue };
        let asked = nodes.link(node).send(keep(max_keep, Keeping::Look)).await;
        there.push((node, run, kept(&asked.map_err(fault::of)?).unwrap_or_default().members));
    }
    let lists: Vec<_> = there.iter().map(|(.., members)| members.as_deref()).collect();
    let mut counting: Vec<_> = counting(&lists, nodes.members())?.into_iter().zip(there).collect();
    // The new ones come first: an initialization that fails half-way does the same again.
    counting.sort_by_key(|(counts, _)| *counts == Counts::AsBefore);
    let mut initialized = Vec::new();
    for (counts, (node, run, _)) in counting {
        let init = init(&run, nodes.members(), counts);
        let reply = nodes.link(node).send(init).await.map_err(fault::of)?;
        if let Some(answer) = crate::layout::foreign_answer(&reply) {
            let fault = NodeFault::of_answer(&answer).unwrap_or(NodeFault::Busy);
            let faults = [(nodes.shown(node).to_owned(), fault)];
            return Err(too_few(&faults, 1, 1).without_effect());
        }
        let keeping = keep(max_keep, Keeping::Take);
        nodes.link(node).send(keeping).await.map_err(fault::of)?;
        initialized.push(nodes.shown(node).to_owned());
    }
    Ok(initialized)
}

/// Which claims count on each of these nodes, which have these lists of servers.
///
/// Where another list is replaced, so many of its servers have to take the new one that no
/// majority of the rest can renew a lock. A server that was not among them counts when all locks of
/// before have ended, and so do the others, if a majority of the new list may have none of an old
/// majority.
///
/// # Errors
/// `Invalid` if too few servers of the other list are here.
fn counting(lists: &[Option<&str>], ours: &str) -> Result<Vec<Counts>> {
    let is_other = |list: &&str| *list != ours;
    let others: BTreeSet<&str> = lists.iter().copied().flatten().filter(is_other).collect();
    let Some(old) = others.first() else { return Ok(vec![Counts::All; lists.len()]) };
    let size = |list: &str| list.split(',').count();
    let (before, after, here) = (size(old), size(ours), lists.iter().flatten().count());
    if others.len() > 1 || here <= before - quorum(before) {
        let shown = others.into_iter().collect::<Vec<_>>().join(" and ");
        let problem = format!("{here} of these servers are in use, by clients that have {shown}");
        return Err(Error::new(ErrorKind::Invalid, problem).with_remedy(
            "a list with more of their servers: replace one server at a time; or redis-cli DEL \
             lk:born on each server, when no client uses them",
        ));
    }
    let stays = quorum(before) + quorum(after) > before;
    let counts = |list: &Option<&str>| match list {
        Some(_) if stays => Counts::AsBefore,
        _ => Counts::FromNow,
    };
    Ok(lists.iter().map(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_replaces_another_keeps_enough_of_its_servers() {
        use Counts::{All, AsBefore, FromNow};
        let (old, new) = (Some("a,b,c"), Some("a,b,d"));
        let five = Some("a,b,c,d,e");
        for (lists, ours, expected) in [
            (&[None, None, None][..], "a,b,c", Some(&[All, All, All][..])),
            (&[old, None, old], "a,b,c", Some(&[All, All, All])),
            (&[old, old, None], "a,b,d", Some(&[AsBefore, AsBefore, FromNow])),
            (&[old, old, new], "a,b,d", Some(&[AsBefore, AsBefore, AsBefore])),
            (
                &[old, old, old, None, None],
                "a,b,c,d,e",
                Some(&[AsBefore, AsBefore, AsBefore, FromNow, FromNow]),
            ),
            // Two of these are no majority of five, and need not meet one.
            (&[five, five, five], "a,b,c", Some(&[FromNow, FromNow, FromNow])),
            (&[old, None, None], "a,d,e", None),
            (&[old, Some("c,d,e"), None], "a,b,d", None),
        ] {
            assert_eq!(counting(lists, ours).ok().as_deref(), expected, "{lists:?} {ours}");
        }
    }
}
