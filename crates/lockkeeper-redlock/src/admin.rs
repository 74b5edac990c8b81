//! The operations of an administrator, on all nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lockkeeper_core::store::{
    Admin, ClaimId, ClaimKey, Evict, Evicted, Line, SessionId, TOMBSTONE_MIN, Target,
};
use lockkeeper_core::{LockName, Result};

use crate::RedlockStore;
use crate::claims::OwnClaim;
use crate::fault::too_few;
use crate::layout::{Keys, by_and_reason, note, noted};
use crate::line::{self, OnNodes};
use crate::nodes::{Round, garbled};
use crate::protocol::{Released, agreed};
use crate::scan::{LINES, scanned, shown_name};
use crate::withdraw;

#[async_trait]
impl Admin for RedlockStore {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        self.check_process()?;
        let is_wanted = |name: &LockName| {
            name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after)
        };
        let mut all = Vec::new();
        // Lines with a hash in place of their name show the name only when they are read.
        let found: Vec<_> = scanned(self).await?.into_iter().collect();
        let may_be = |keys: &Keys| keys.name().as_ref().is_none_or(is_wanted);
        let wanted: Vec<_> = found.into_iter().filter(may_be).collect();
        for some in wanted.chunks(LINES) {
            let on_nodes = line::on_nodes(self, some).await?;
            for (at, keys) in some.iter().enumerate() {
                let Some(name) = keys.name().or_else(|| shown_name(&on_nodes, at)) else {
                    continue;
                };
                let line = line::merged(self, &on_nodes, at);
                // Nobody knows whether a line that cannot be read has a holder.
                let is_used = line.as_ref().map_or(true, |line| !line.entries.is_empty());
                if is_used && is_wanted(&name) {
                    all.push((name, line));
                }
            }
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.truncate(limit);
        Ok(all)
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        let keys = Keys::of(name);
        let on_nodes = line::on_nodes(self, std::slice::from_ref(&keys)).await?;
        line::merged(self, &on_nodes, 0)?;
        let Some(id) = victim(&on_nodes, target, self.0.nodes.quorum()) else {
            return Ok(Evicted::Absent);
        };
        if how == Evict::Mark {
            let done = noted_on(self, &keys, &id, b"b", &by_and_reason(by, reason)).await?;
            return Ok(if done { Evicted::Done } else { Evicted::Absent });
        }
        let (keep, now) = (self.0.setup.max_keep, self.0.clock.now());
        let key = ClaimKey { name: name.clone(), session: SessionId::random(), id };
        let (at, why) = ((self.0.nodes.len(), now), by_and_reason(by, reason));
        let own = OwnClaim::removed(key, keys, (keep, keep), at, why);
        match withdraw::from_all(self, &own, Some(TOMBSTONE_MIN)).await {
            (Released::Removed, _) => Ok(Evicted::Done),
            (Released::Absent, _) => Ok(Evicted::Absent),
            (Released::Unknown, faults) => {
                let nodes = &self.0.nodes;
                Err(too_few(&faults, nodes.len(), nodes.quorum()).with_unknown_effect())
            }
        }
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let keys = Keys::of(name);
        let on_nodes = line::on_nodes(self, std::slice::from_ref(&keys)).await?;
        let line = line::merged(self, &on_nodes, 0)?;
        let mut has_asked = false;
        for entry in line.entries.iter().filter(|entry| entry.broken.is_none()) {
            let target = Target::Id(entry.id);
            if let Some(id) = victim(&on_nodes, &target, self.0.nodes.quorum()) {
                has_asked |= noted_on(self, &keys, &id, b"a", &by_and_reason(by, reason)).await?;
            }
        }
        Ok(has_asked)
    }
}

/// The holder that is meant, on any node. A token is that of a majority.
fn victim(on_nodes: &OnNodes, target: &Target, quorum: usize) -> Option<ClaimId> {
    let holders = || on_nodes.iter().filter_map(|lines| lines.first()?.as_ref().ok());
    let holders = || holders().flat_map(|line| &line.holders);
    match target {
        Target::Id(hash) => holders().map(|holder| holder.id).find(|id| id.hash() == *hash),
        Target::Token(token) => {
            // A node that has not answered may have the claim too.
            let answered = on_nodes.iter().filter(|lines| matches!(lines.first(), Some(Ok(_))));
            let enough = (answered.count() + quorum).saturating_sub(on_nodes.len()).max(1);
            let mut with_it = BTreeMap::new();
            for holder in holders().filter(|holder| holder.number == *token) {
                with_it.entry(holder.id).or_insert_with(Vec::new).push(holder.number);
            }
            let is_token = |numbers: &Vec<u64>| agreed(numbers.iter().copied(), enough).is_some();
            with_it.into_iter().find(|(_, numbers)| is_token(numbers)).map(|(id, _)| id)
        }
    }
}

/// Keeps a text with a holder on all nodes. Returns whether a majority has the holder.
async fn noted_on(
    store: &RedlockStore,
    keys: &Keys,
    id: &ClaimId,
    kind: &[u8],
    text: &[u8],
) -> Result<bool> {
    let nodes = &store.0.nodes;
    let (mut done, mut absent, mut faults) = (0, 0, Vec::new());
    let mut round = Round::new();
    for node in 0..nodes.len() {
        round.add(node, nodes.ask(node, |_| note(keys, id, kind, text)));
    }
    while let Some((node, reply)) = round.next().await {
        let noted =
            reply.and_then(|value| noted(&value, id).ok_or_else(|| garbled(nodes.link(node))));
        match noted {
            Ok(Ok(true)) => done += 1,
            Ok(Ok(false)) => absent += 1,
            Ok(Err(answer)) => faults.push((nodes.shown(node).to_owned(), line::foreign(answer))),
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault)),
        }
    }
    match () {
        () if done >= nodes.quorum() => Ok(true),
        () if absent > nodes.len() - nodes.quorum() => Ok(false),
        () => Err(too_few(&faults, nodes.len(), nodes.quorum()).with_unknown_effect()),
    }
}
