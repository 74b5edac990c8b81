//! Finds the lines that there are, on all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::{Error, LockName, Result};
use lockkeeper_redis_client::wire::{Request, Value};

use crate::RedlockStore;
use crate::fault::{NodeFault, too_few};
use crate::layout::{Keys, NodeLine};
use crate::line::{self, OnNodes};
use crate::nodes::{Round, garbled};

/// How many keys a node looks at in one step of `SCAN`.
const STEP: &[u8] = b"10000";
/// How many lines are asked about in one request.
pub(super) const LINES: usize = 500;

/// Checks that no node has a claim that another one may have forgotten.
///
/// # Errors
/// `Invalid` with the lock and both nodes.
pub(super) async fn check_none_forgotten(store: &RedlockStore) -> Result<()> {
    let nodes = &store.0.nodes;
    for some in scanned(store).await?.chunks(LINES) {
        let on_nodes = line::on_nodes(store, some).await?;
        for (at, keys) in some.iter().enumerate() {
            let lines =
                on_nodes.iter().map(|lines| lines.get(at).and_then(|line| line.as_ref().ok()));
            let lines: Vec<_> =
                lines.enumerate().filter_map(|(node, line)| Some((node, line?))).collect();
            let has = |line: &NodeLine, id| line.holders.iter().any(|holder| holder.id == id);
            let forgotten = lines.iter().find_map(|(one, line)| {
                let lacks = |id| lines.iter().find(|(_, other)| !other.counts && !has(other, id));
                line.holders.iter().find_map(|holder| Some((*one, lacks(holder.id)?.0)))
            });
            let Some((one, other)) = forgotten else { continue };
            let name = keys.name().or_else(|| shown_name(&on_nodes, at));
            let name = name.map_or_else(|| keys.line().to_owned(), |name| name.to_string());
            let (one, other) = (nodes.shown(one), nodes.shown(other));
            let problem =
                format!("{one} has a holder of {name:?}, and {other} may have forgotten it");
            return Err(Error::invalid(problem).with_remedy(
                "again when it is released, or lockkeeper break, if nobody holds it",
            ));
        }
    }
    Ok(())
}

/// The name of a line whose key has only a hash of it.
pub(super) fn shown_name(on_nodes: &OnNodes, at: usize) -> Option<LockName> {
    let lines = on_nodes.iter().filter_map(|lines| lines.get(at)?.as_ref().ok());
    lines.flat_map(|line| &line.holders).find_map(|holder| holder.texts.name.clone())
}

/// The lines of all nodes. A majority has to answer.
pub(super) async fn scanned(store: &RedlockStore) -> Result<Vec<Keys>> {
    let nodes = &store.0.nodes;
    let mut round = Round::new();
    for node in 0..nodes.len() {
        let store = store.clone();
        round.add(node, async move { scan(&store, node).await });
    }
    let (mut found, mut faults, mut answered) = (BTreeMap::new(), Vec::new(), 0);
    let mut rest = Duration::MAX;
    while let Some(Some((node, scanned))) = store.0.clock.timeout(rest, round.next()).await {
        match scanned {
            Ok(keys) => {
                found.extend(keys.into_iter().map(|keys| (keys.line().to_owned(), keys)));
                answered += 1;
            }
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault)),
        }
        if answered >= nodes.quorum() {
            rest = line::REST;
        }
    }
    if answered < nodes.quorum() {
        return Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect());
    }
    Ok(found.into_values().collect())
}

async fn scan(store: &RedlockStore, node: usize) -> Result<Vec<Keys>, NodeFault> {
    let (mut cursor, mut found) = (b"0".to_vec(), Vec::new());
    loop {
        let pattern = Keys::pattern();
        let parts: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", STEP];
        let reply = store.0.nodes.ask(node, |_| Request::command(&parts)).await?;
        let garbled = || garbled(store.0.nodes.link(node));
        let Value::Array(answer) = reply else { return Err(garbled()) };
        let [Value::BulkString(next), Value::Array(keys)] = &answer[..] else {
            return Err(garbled());
        };
        found.extend(keys.iter().filter_map(|key| match key {
            Value::BulkString(key) => Keys::scanned(key),
            _ => None,
        }));
        if next == b"0" {
            return Ok(found);
        }
        cursor.clone_from(next);
    }
}
