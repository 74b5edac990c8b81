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
use crate::layout::{Counts, Keeping, Kept, counted, init, keep, kept};
use crate::nodes::Round;
use crate::protocol::quorum;
use crate::scan::check_none_forgotten;

/// When a majority has answered, the other nodes get as long again, within these limits.
const REST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];

/// Refuses nodes on which locks cannot be relied on. A majority has to be there. A silent node does
/// not hold the opening up: it counts when it answers. Returns the nodes that were initialized, and
/// when each counts.
pub(crate) async fn check(store: &RedlockStore) -> Result<Vec<(String, Duration)>> {
    let (nodes, setup) = (&store.0.nodes, &store.0.setup);
    let (usable, faults) = answered(store).await?;
    // A client that is there already may wait until the servers have its list. One that begins has
    // a wrong setting.
    nodes.check_members().map_err(|error| {
        let remedy = error.remedy().unwrap_or_default().to_owned();
        Error::new(ErrorKind::Unsupported, error.message().to_owned()).with_remedy(remedy)
    })?;
    if usable.len() < nodes.quorum() {
        return Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect());
    }
    // Of two addresses of one server, the one that has answered first shows nothing.
    for (node, _) in &usable {
        if let Err(fault @ NodeFault::Twin(_)) = nodes.run(*node) {
            let fault = (nodes.shown(*node).to_owned(), fault);
            return Err(too_few(&[fault], 1, 1).without_effect());
        }
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
    new.sort_by_key(|(node, _)| nodes.name(*node));
    for (node, _) in new {
        let Ok(reply) = nodes.ask(node, |run| keep(setup.max_keep, Keeping::TakeIfNone, run)).await
        else {
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
    let waited = clock.now().saturating_since(began);
    let silent = |node| (nodes.shown(node).to_owned(), NodeFault::Silent(waited));
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
    match nodes.ask(node, |run| keep(max_keep, Keeping::Look, run)).await {
        Ok(_) if store.0.setup.assumes_fresh => Ok(Ok(false)),
        Ok(theirs) => {
            let theirs = kept(&theirs).unwrap_or_default();
            fits(store, node, &theirs)?;
            let others = theirs.members.filter(|theirs| nodes.lists_others(node, theirs));
            match others {
                Some(others) => Ok(Err(NodeFault::Refused(other_members(&others)))),
                None => Ok(Ok(theirs.max_keep.is_none())),
            }
        }
        Err(fault) => Ok(Err(fault)),
    }
}

/// # Errors
/// `Invalid` if the other clients of this node have another `max-keep`.
fn fits(store: &RedlockStore, node: usize, theirs: &Kept) -> Result<()> {
    let (ours, shown) = (store.0.setup.max_keep, store.0.nodes.shown(node));
    if let Some(theirs) = theirs.max_keep.filter(|theirs| *theirs != ours) {
        let (problem, remedy) = disagreement(shown, ours, theirs);
        return Err(Error::invalid(problem).with_remedy(remedy));
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

/// The `max-keep` and the servers of this client are those of all clients from now on. The claims
/// of each node that is there count: it has forgotten none. Where the servers change, they count
/// when the locks of before have ended. Returns the nodes, and when each counts.
async fn initialize(store: &RedlockStore) -> Result<Vec<(String, Duration)>> {
    let (nodes, max_keep) = (&store.0.nodes, store.0.setup.max_keep);
    let (mut there, mut lists, mut forgetful) = (Vec::new(), Vec::new(), None);
    for node in 0..nodes.len() {
        let Ok((_, run)) = nodes.run(node) else { continue };
        let asked = nodes.link(node).send(keep(max_keep, Keeping::Look, &run)).await;
        let known = kept(&asked.map_err(fault::of)?).unwrap_or_default();
        let list = known.members.unwrap_or_default();
        forgetful = if known.counts { forgetful } else { Some(node) };
        lists.push((nodes.name(node), list.clone()));
        there.push((node, run, list));
    }
    let counting = counting(&lists, nodes.members())?;
    let is_new = |counts: &Counts| *counts == Counts::FromNow;
    let have_it = lists.iter().filter(|(_, list)| list == nodes.members()).count();
    let away = |why: &str, remedy: &str| {
        let problem = format!("{} of {} servers are there, and {why}", there.len(), nodes.len());
        Err(Error::new(ErrorKind::Unavailable, problem).with_remedy(remedy))
    };
    match (counting.contains(&Counts::All), there.len() < nodes.len()) {
        (true, true) if let Some(node) = forgetful => {
            let why = format!("{} may have forgotten a lock of another one", nodes.shown(node));
            return away(&why, "again when all are there, or a max-keep later");
        }
        (true, _) => check_none_forgotten(store).await?,
        // One that is away would count with its old memory.
        (false, true) if have_it < nodes.quorum() => {
            return away("a list is replaced on all of its servers", "again when all are there");
        }
        (false, _) => {}
    }
    let mut initialized = Vec::new();
    let all: Vec<_> = counting.into_iter().zip(there).collect();
    // New servers do not count while the old clients may get a lock: from before the others change
    // on, and for a life after it.
    let first = all.iter().filter(|(counts, _)| is_new(counts));
    let (last, others): (Vec<_>, Vec<_>) = all.iter().partition(|(counts, _)| is_new(counts));
    for (counts, (node, run, known)) in first.chain(others).chain(last) {
        let (counts, node) = (*counts, *node);
        let shown = nodes.shown(node).to_owned();
        let init = init(run, (known, nodes.members()), max_keep, counts);
        let reply = nodes.link(node).send(init).await.map_err(fault::of)?;
        if let Some(answer) = crate::layout::foreign_answer(&reply) {
            let fault = NodeFault::of_answer(&answer).unwrap_or(NodeFault::Busy);
            return Err(too_few(&[(shown, fault)], 1, 1).without_effect());
        }
        let Some(later) = counted(&reply) else {
            let problem = format!("{shown}: another client has changed its list of servers");
            return Err(Error::new(ErrorKind::Unavailable, problem).with_remedy("again"));
        };
        let keeping = keep(max_keep, Keeping::Take, run);
        nodes.link(node).send(keeping).await.map_err(fault::of)?;
        initialized.retain(|(node, _)| *node != shown);
        initialized.push((shown, later));
    }
    Ok(initialized)
}

/// Which claims count on each of these nodes, which have these names and lists of servers.
///
/// Where another list is replaced, so many of its servers have to take the new one that no
/// majority of the rest can renew a lock. A server without the old list counts when all locks of
/// before have ended, and so do the others, if a majority of the new list may have none of an old
/// majority.
///
/// # Errors
/// `Invalid` if too few servers of the other list are here.
fn counting(nodes: &[(&str, String)], ours: &str) -> Result<Vec<Counts>> {
    let is_other = |list: &&str| !list.is_empty() && *list != ours;
    let lists = nodes.iter().map(|(_, list)| list.as_str());
    let others: BTreeSet<&str> = lists.filter(is_other).collect();
    let Some(old) = others.first() else { return Ok(vec![Counts::All; nodes.len()]) };
    let size = |list: &str| list.split(',').count();
    let (before, after) = (size(old), size(ours));
    // An initialization that ended early may have changed some of them.
    let is_of_old = |(name, list): &(&str, String)| {
        list == old || list == ours && old.split(',').any(|member| member == *name)
    };
    let here = nodes.iter().filter(|node| is_of_old(node)).count();
    if others.len() > 1 || here <= before - quorum(before) {
        let shown = others.into_iter().collect::<Vec<_>>().join(" and ");
        let problem = format!("{here} of these servers are in use, by clients that have {shown}");
        return Err(Error::invalid(problem).with_remedy(
            "a list with more of their servers: replace one server at a time; or redis-cli DEL \
             lk:born on each of these that no client of the other list uses any more",
        ));
    }
    let stays = quorum(before) + quorum(after) > before;
    let counts = |node| match stays && is_of_old(node) {
        true => Counts::AsBefore,
        false => Counts::FromNow,
    };
    Ok(nodes.iter().map(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_replaces_another_keeps_enough_of_its_servers() {
        use Counts::{All, AsBefore, FromNow};
        let (old, new, five) = ("a,b,c", "a,b,d", "a,b,c,d,e");
        for (nodes, ours, expected) in [
            (&[("a", ""), ("b", ""), ("c", "")][..], old, Some(&[All, All, All][..])),
            (&[("a", old), ("b", ""), ("c", old)], old, Some(&[All, All, All])),
            (&[("a", old), ("b", old), ("d", "")], new, Some(&[AsBefore, AsBefore, FromNow])),
            // The first time ended early.
            (&[("a", old), ("b", old), ("d", new)], new, Some(&[AsBefore, AsBefore, FromNow])),
            (&[("a", new), ("b", old), ("d", new)], new, Some(&[AsBefore, AsBefore, FromNow])),
            (
                &[("a", old), ("b", old), ("c", old), ("d", ""), ("e", "")],
                five,
                Some(&[AsBefore, AsBefore, AsBefore, FromNow, FromNow]),
            ),
            // Two of these are no majority of five, and need not meet one.
            (&[("a", five), ("b", five), ("c", five)], old, Some(&[FromNow, FromNow, FromNow])),
            (&[("a", old), ("d", ""), ("e", "")], "a,d,e", None),
            (&[("a", old), ("d", "a,d,e"), ("e", "a,d,e")], "a,d,e", None),
            (&[("a", old), ("b", old), ("d", "c,d,e")], new, None),
        ] {
            let nodes: Vec<_> =
                nodes.iter().map(|(name, list)| (*name, (*list).to_owned())).collect();
            let counts = counting(&nodes, ours).ok();
            assert_eq!(counts.as_deref(), expected, "{nodes:?} {ours}");
        }
    }
}
