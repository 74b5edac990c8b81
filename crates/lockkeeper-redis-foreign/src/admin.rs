//! Lines, and the operations of an administrator.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::layout::{self, Breaking, Holders, Keys, Layout};
use super::{ForeignRedisStore, fault};
use crate::store::{Admin, Evict, Evicted, Line, Target};
use crate::{ErrorKind, LockName, Result};
use lockkeeper_redis_client::scan;

/// How many lines are asked about in one request.
const LINES: usize = 500;

type Lines = Vec<(LockName, Result<Line>)>;

/// The live claims of a lock.
pub(super) async fn line(store: &ForeignRedisStore, name: &LockName) -> Result<Line> {
    Ok(holders(store, &store.keys(name)).await?.line(store.0.layout))
}

async fn holders(store: &ForeignRedisStore, keys: &Keys) -> Result<Holders> {
    let request = layout::line(store.0.layout, keys, None);
    let found = store.ask(keys, request, |value| layout::line_answer(keys, value))?.await?;
    with_lives(store, keys, found).await
}

/// Each reader of a read-write lock has a key with its life. Only the line shows which readers
/// there are.
pub(super) async fn with_lives(
    store: &ForeignRedisStore,
    keys: &Keys,
    found: Holders,
) -> Result<Holders> {
    let readers: Vec<_> = found.readers().map(<[u8]>::to_vec).collect();
    if store.0.layout != Layout::RedissonRw || readers.is_empty() {
        return Ok(found);
    }
    let request = layout::line_of_readers(store.0.layout, keys, &readers);
    store.ask(keys, request, |value| layout::line_answer(keys, value))?.await
}

#[async_trait]
impl Admin for ForeignRedisStore {
    async fn lines(&self, prefix: &str, after: Option<&LockName>, limit: usize) -> Result<Lines> {
        self.check_process()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut names = BTreeMap::new();
        let pattern = layout::pattern(self.0.layout, prefix);
        for link in self.0.route.masters() {
            for key in scan(&link, &pattern, || self.check_process()).await? {
                let found = layout::names_of(self.0.layout, &key).into_iter().filter(|name| {
                    name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after)
                });
                names.extend(found.map(|name| (name.clone(), self.keys(&name))));
            }
        }
        let (mut lines, all): (Lines, Vec<Keys>) = (Vec::new(), names.into_values().collect());
        for some in all.chunks(LINES) {
            lines.extend(asked(self, some).await?);
            if lines.len() >= limit {
                break;
            }
        }
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
        let keys = self.keys(name);
        let holders = holders(self, &keys).await?;
        let Some(owner) = holders.find(self.0.layout, target) else { return Ok(Evicted::Absent) };
        let how = match how {
            Evict::Mark => Breaking::Mark,
            Evict::Now => Breaking::Remove,
        };
        let done = break_claim(self, &keys, owner, how, (by, reason)).await?;
        done.ok_or_else(|| fault::no_client(self.0.layout, owner))
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let keys = self.keys(name);
        let holders = holders(self, &keys).await?;
        let (mut is_asked, mut stranger) = (false, None);
        // A late copy of a request asks no later holder.
        for holder in holders.granted() {
            let how = Breaking::Ask;
            match break_claim(self, &keys, &holder.owner, how, (by, reason)).await? {
                Some(done) => is_asked |= done == Evicted::Done,
                None => stranger = Some(&holder.owner),
            }
        }
        match stranger.filter(|_| !is_asked) {
            Some(stranger) => Err(fault::no_client(self.0.layout, stranger)),
            None => Ok(is_asked),
        }
    }
}

async fn break_claim(
    store: &ForeignRedisStore,
    keys: &Keys,
    owner: &[u8],
    how: Breaking,
    by: (&str, &str),
) -> Result<Option<Evicted>> {
    let request = layout::evict(store.0.layout, keys, owner, store.messages(), how, by);
    store.ask(keys, request, |value| layout::evict_answer(owner, value))?.await
}

/// The lines of these keys that have live claims, in the order of their names.
async fn asked(store: &ForeignRedisStore, keys: &[Keys]) -> Result<Lines> {
    let mut groups = BTreeMap::<u16, Vec<Keys>>::new();
    for keys in keys {
        let group = if store.is_cluster() { keys.slot() } else { 0 };
        // No lock can be acquired there.
        if !store.is_cluster() || keys.check_slot().is_ok() {
            groups.entry(group).or_default().push(keys.clone());
        }
    }
    let mut sent = Vec::new();
    for keys in groups.into_values() {
        let request = layout::lines(store.0.layout, &keys);
        let first = keys[0].clone();
        let answer = store.ask(&first, request, move |value| {
            let lines = layout::line_answers(&keys, value)?;
            Ok(keys.into_iter().zip(lines).collect::<Vec<_>>())
        })?;
        sent.push(answer);
    }
    let mut lines = Lines::new();
    for answer in sent {
        for (keys, found) in answer.await? {
            let name = keys.name().clone();
            let found = match found {
                Ok(found) => with_lives(store, &keys, found).await,
                // The key belongs to an application.
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) if found.all.is_empty() || !found.is_lock(store.0.layout) => {}
                found => lines.push((name, found.map(|found| found.line(store.0.layout)))),
            }
        }
    }
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}
