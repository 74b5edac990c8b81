//! The operations of an administrator.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::kit::Backoff;

use super::layout::{self, Keys, Victim};
use super::servers::Said;
use super::{RedisStore, fault, long};
use crate::store::{Admin, Evict, Evicted, Line, Store as _, Target};
use crate::wire::WireError;
use crate::{Error, ErrorKind, LockName, Result};
use lockkeeper_redis_client::scan;

/// How many lines are asked about in one request.
const LINES: usize = 500;
/// How many requests are under way at the same time in a Cluster, where each slot has its own.
const TOGETHER: usize = 64;
/// The pauses before a request to release begins again because its holders have left meanwhile.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(200);

type Lines = Vec<(LockName, Result<Line>)>;

#[async_trait]
impl Admin for RedisStore {
    async fn lines(&self, prefix: &str, after: Option<&LockName>, limit: usize) -> Result<Lines> {
        self.check_process()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for link in self.0.servers.masters() {
            let pattern = layout::pattern(prefix);
            found.extend(scan(&link, pattern.as_bytes(), || self.check_process()).await?);
        }
        let is_wanted = |name: &LockName| {
            name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after)
        };
        let (mut named, hashed) = candidates(&found, &is_wanted)?;
        // Only the lines of these keys show their names.
        let mut lines = asked(self, hashed).await?;
        lines.retain(|(name, _)| is_wanted(name));
        // The rest in the order of names, until there are enough.
        while !named.is_empty() {
            let next = named.split_off(
                named.len().saturating_sub(LINES * together(self).min(limit.div_ceil(LINES))),
            );
            let last = next.first().map(|(name, _)| name.clone());
            lines.extend(asked(self, next.into_iter().map(|(_, keys)| keys).collect()).await?);
            let known = lines
                .iter()
                .filter(|(name, _)| last.as_ref().is_some_and(|last| name <= last))
                .count();
            if known >= limit {
                break;
            }
        }
        lines.sort_by(|(a, _), (b, _)| a.cmp(b));
        lines.truncate(limit);
        Ok(lines)
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        let victim = match target {
            Target::Token(token) => Victim::Token(*token),
            Target::Id(hash) => {
                match long::line(self, name, |value| layout::find(name, value, *hash)).await? {
                    Some(id) => Victim::Id(id),
                    None => return Ok(Evicted::Absent),
                }
            }
        };
        self.ask(name, layout::evict(name, &victim, how, by, reason))?
            .await?
            .read(layout::evict_answer)
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let clock = &self.0.clock;
        let until = clock.now() + self.0.servers.link(Keys::of(name).slot()).timeout();
        let mut backoff = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        loop {
            let said = self.ask(name, layout::holders(name))?.await?;
            let holders = said.read(layout::holders_answer)?;
            if holders.is_empty() {
                return Ok(false);
            }
            // A late copy of this request asks no later holder.
            let request = layout::request_release(name, &holders, by, reason);
            if self.ask(name, request)?.await?.read(layout::request_answer)? {
                return Ok(true);
            }
            if clock.now() >= until {
                let problem = "its holders have changed before each request to them";
                return Err(
                    Error::new(ErrorKind::Unavailable, problem).with_remedy("again in a moment")
                );
            }
            clock.sleep(backoff.pause()).await;
        }
    }
}

/// The keys of lines with a wanted name, the last name first, and the keys that have only a hash of
/// their name.
///
/// `SCAN` may show a key twice, and both nodes may show a slot that moves.
#[allow(clippy::type_complexity, reason = "two lists")]
fn candidates(
    found: &[Vec<u8>],
    is_wanted: &impl Fn(&LockName) -> bool,
) -> Result<(Vec<(LockName, Keys)>, Vec<Keys>)> {
    let (mut named, mut hashed) = (BTreeMap::new(), BTreeMap::new());
    for keys in found.iter().filter_map(|key| Keys::scanned(key)) {
        match keys.name()? {
            Some(name) if is_wanted(&name) => drop(named.insert(name, keys)),
            Some(_) => {}
            None => drop(hashed.insert(keys.encoded().to_vec(), keys)),
        }
    }
    Ok((named.into_iter().rev().collect(), hashed.into_values().collect()))
}

/// The lines of these keys that have live claims.
async fn asked(store: &RedisStore, keys: Vec<Keys>) -> Result<Lines> {
    let (mut lines, mut left) = (Vec::new(), keys);
    while !left.is_empty() {
        let mut long = Vec::new();
        let groups: Vec<Vec<Keys>> = by_slot(store, left);
        for groups in groups.chunks(together(store)) {
            let sent: Vec<_> = groups.iter().map(|keys| ask(store, keys)).collect();
            for (keys, answer) in groups.iter().zip(sent) {
                let said = answer.await.map_err(fault::of)?;
                let (whole, longer) = said.read(|value| layout::lines_answer(keys, value))?;
                lines.extend(whole);
                long.push(longer);
            }
        }
        left = Vec::new();
        for mut longer in long {
            if let Some(name) = longer.first_mut().and_then(|first| first.alone.take()) {
                longer.remove(0);
                lines.extend(long_line(store, name).await?);
            }
            left.extend(longer.into_iter().map(|long| long.keys));
        }
    }
    Ok(lines)
}

/// How many requests are under way at the same time. On one server it is one, so that renewals do
/// not wait behind a whole list.
fn together(store: &RedisStore) -> usize {
    if store.0.servers.is_cluster() { TOGETHER } else { 1 }
}

fn ask(
    store: &RedisStore,
    keys: &[Keys],
) -> impl Future<Output = std::result::Result<Said, WireError>> + Send + use<> {
    store.0.servers.send(keys[0].slot(), layout::lines(keys, long::SHORT))
}

/// Asks for a long line by itself. All its claims may have left meanwhile.
async fn long_line(store: &RedisStore, name: LockName) -> Result<Option<(LockName, Result<Line>)>> {
    Ok(match store.line(&name).await {
        Ok(line) if line.entries.is_empty() => None,
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        line => Some((name, line)),
    })
}

/// The keys in groups, one for each request.
fn by_slot(store: &RedisStore, keys: Vec<Keys>) -> Vec<Vec<Keys>> {
    let mut groups = BTreeMap::<u16, Vec<Keys>>::new();
    for keys in keys {
        groups.entry(store.0.servers.group(&keys)).or_default().push(keys);
    }
    groups
        .into_values()
        .flat_map(|group| group.chunks(LINES).map(<[Keys]>::to_vec).collect::<Vec<_>>())
        .collect()
}
