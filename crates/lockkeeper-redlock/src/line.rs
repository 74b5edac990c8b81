//! Lines, as the nodes together keep them.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::store::{ClaimId, Entry, Line, MAX, Revision};
use lockkeeper_core::{LockName, Result};
use sha2::{Digest, Sha256};

use crate::RedlockStore;
use crate::fault::{NodeFault, too_few};
use crate::layout::{Holder, Keys, NodeLine, lines, read};
use crate::nodes::{Round, garbled};
use crate::protocol::agreed;

/// When a majority has answered, the other nodes have this time.
pub(super) const REST: Duration = Duration::from_millis(250);
/// The bits of a revision that no line has: see `waiters.rs`.
const LINES: u64 = (1 << 62) - 1;

/// The answers of the nodes about some lines: for each node the lines, or what is wrong.
pub(super) type OnNodes = Vec<Vec<Result<NodeLine, NodeFault>>>;

/// The live claims of this name.
pub(super) async fn line(store: &RedlockStore, name: &LockName) -> Result<Line> {
    let on_nodes = on_nodes(store, &[Keys::of(name)]).await?;
    merged(store, &on_nodes, 0)
}

/// Asks all nodes for these lines.
pub(super) async fn on_nodes(store: &RedlockStore, keys: &[Keys]) -> Result<OnNodes> {
    store.check_process()?;
    let (nodes, clock, max_keep) = (&store.0.nodes, &store.0.clock, store.0.setup.max_keep);
    let mut round = Round::new();
    for node in 0..nodes.len() {
        round.add(node, nodes.ask(node, |run| read(keys, run, max_keep)));
    }
    let limit = store.0.setup.hosts.timeout;
    let mut until = clock.now() + limit;
    let silent = vec![Err(NodeFault::Silent(limit)); keys.len()];
    let (mut all, mut answered) = (vec![silent; nodes.len()], 0);
    while let Some(Some((node, reply))) =
        clock.timeout(until.saturating_since(clock.now()), round.next()).await
    {
        let read = reply
            .and_then(|value| lines(&value, keys.len()).ok_or_else(|| garbled(nodes.link(node))));
        match read {
            Ok(read) => {
                all[node] = read.into_iter().map(|line| line.map_err(foreign)).collect();
                answered += 1;
            }
            Err(fault) => all[node] = vec![Err(fault); keys.len()],
        }
        if answered >= nodes.quorum() {
            until = until.min(clock.now() + REST);
        }
    }
    Ok(all)
}

/// The fault of a node with a value of another program.
pub(super) fn foreign(answer: crate::layout::NodeAnswer) -> NodeFault {
    NodeFault::of_answer(&answer).unwrap_or(NodeFault::Busy)
}

/// One of the lines. A claim is a holder if a majority has it with one number, its token. Claims of
/// attempts that are under way, or were cut off, are none. A node that has not answered may have
/// any claim, and one that may have forgotten claims may have had any: so a claim that has a
/// majority with such nodes is shown too.
///
/// # Errors
/// Fewer than a majority can be read, or know whether the lock is held.
pub(super) fn merged(store: &RedlockStore, on_nodes: &OnNodes, at: usize) -> Result<Line> {
    let nodes = &store.0.nodes;
    let quorum = nodes.quorum();
    let mut faults = Vec::new();
    let mut holders: BTreeMap<ClaimId, Vec<&Holder>> = BTreeMap::new();
    let (mut fences, mut forgetful) = (Vec::new(), 0);
    for (node, lines) in on_nodes.iter().enumerate() {
        match &lines[at] {
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault.clone())),
            Ok(line) => {
                fences.push(line.fence);
                if !line.counts {
                    forgetful += 1;
                    let left = store.0.setup.max_keep;
                    faults.push((nodes.shown(node).to_owned(), NodeFault::Forgot(left)));
                    continue;
                }
                line.holders.iter().for_each(|holder| {
                    holders.entry(holder.id).or_default().push(holder);
                });
            }
        }
    }
    if fences.len() < quorum {
        return Err(too_few(&faults, nodes.len(), quorum).without_effect());
    }
    let known = fences.len() - forgetful;
    let enough = (known + quorum).saturating_sub(nodes.len()).max(1);
    let mut entries: Vec<Entry> =
        holders.into_values().filter_map(|holders| entry(&holders, enough)).collect();
    if entries.is_empty() && known < quorum {
        return Err(too_few(&faults, nodes.len(), quorum).without_effect());
    }
    entries.sort_by_key(|entry| entry.token);
    let last_token = agreed(fences.iter().copied(), quorum).filter(|fence| *fence > 0);
    let revision = revision(&entries, last_token);
    Ok(Line { revision, last_token, entries })
}

/// A holder, if so many nodes agree on its token.
fn entry(holders: &[&Holder], enough: usize) -> Option<Entry> {
    let token = agreed(holders.iter().map(|holder| holder.number), enough)?;
    let mut with_it: Vec<_> = holders.iter().filter(|holder| holder.number == token).collect();
    // It lives until fewer nodes keep it.
    with_it.sort_by_key(|holder| std::cmp::Reverse(holder.expires_in));
    let last = with_it.get(enough - 1)?;
    Some(Entry {
        id: last.id.hash(),
        weight: if last.exclusive { MAX } else { 1 },
        capacity: MAX,
        granted: true,
        kept: false,
        token: Some(token),
        meta: last.texts.meta.clone(),
        age: with_it.iter().map(|holder| holder.age).max(),
        expires_in: Some(last.expires_in),
        broken: holders.iter().find_map(|holder| holder.broken.clone()),
    })
}

/// The first bits of a hash of all that a line shows and that does not change with time.
fn revision(entries: &[Entry], last_token: Option<u64>) -> Revision {
    let mut hash = Sha256::new().chain_update(last_token.unwrap_or_default().to_le_bytes());
    for entry in entries {
        hash.update(entry.id.to_string());
        hash.update(entry.token.unwrap_or_default().to_le_bytes());
        hash.update([u8::from(entry.weight == MAX), u8::from(entry.broken.is_some())]);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    Revision(u64::from_le_bytes(first) & LINES)
}
