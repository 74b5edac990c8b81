//! The operations of an administrator.

use async_trait::async_trait;

use super::layout::{self, Keys, Listed, Victim};
use super::route::NoFallback;
use super::wire::{Link, Request, Value};
use super::{RedisStore, fault, long};
use crate::store::{Admin, Evict, Evicted, Line, Store as _, Target};
use crate::{Error, ErrorKind, LockName, Result};

/// How many keys the server looks at in one step, so that it does not hold up everybody else.
const STEP: &[u8] = b"1000";
/// How many lines are asked about in one request.
const LINES: usize = 100;
/// How often a server is looked at from the beginning.
const SCANS: u32 = 4;

#[async_trait]
impl Admin for RedisStore {
    async fn lines(&self, prefix: &str, limit: usize) -> Result<Vec<(LockName, Result<Line>)>> {
        self.check_process()?;
        let mut lines = Vec::new();
        for link in self.0.servers.masters() {
            for pattern in layout::patterns(prefix) {
                lines.extend(scan(self, &link, &pattern).await?);
            }
        }
        lines.retain(|(name, _)| name.as_str().starts_with(prefix));
        lines.sort_by(|(a, _), (b, _)| a.cmp(b));
        // A key may be shown twice, and a slot that moves be seen at both ends.
        lines.dedup_by(|(a, _), (b, _)| a == b);
        lines.truncate(limit);
        Ok(lines)
    }

    async fn evict(&self, name: &LockName, target: &Target, how: Evict, by: &str, reason: &str) -> Result<Evicted> {
        let victim = match target {
            Target::Token(token) => Victim::Token(*token),
            Target::Id(hash) => match long::line(self, name, |value| layout::find(name, value, *hash)).await? {
                Some(id) => Victim::Id(id),
                None => return Ok(Evicted::Absent),
            },
        };
        self.ask(name, layout::evict(name, &victim, how, by, reason))?.await?.read(layout::evict_answer)
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        self.ask(name, layout::request_release(name, by, reason))?.await?.read(layout::request_answer)
    }
}

/// The lines of one server that match, and where somebody lives.
async fn scan(store: &RedisStore, link: &Link, pattern: &str) -> Result<Vec<(LockName, Result<Line>)>> {
    for _ in 0..SCANS {
        if let Some(lines) = scan_at_once(store, link, pattern).await? {
            return Ok(lines);
        }
    }
    let problem = format!("the connection to {} was lost during each look at all keys", link.endpoint());
    Err(Error::new(ErrorKind::Unavailable, problem).with_remedy("again in a moment"))
}

/// The same on one connection; `None` if that was lost. Behind it there may be another server, to which the cursor of the
/// first one means nothing: it would leave out keys, and nobody would notice.
async fn scan_at_once(store: &RedisStore, link: &Link, pattern: &str) -> Result<Option<Vec<(LockName, Result<Line>)>>> {
    // Why there is no connection, the request says.
    drop(link.ready().await);
    let (mut lines, mut cursor, run) = (Vec::new(), b"0".to_vec(), link.run());
    loop {
        let step = Request::command(&[b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", STEP]);
        let answer = link.send(step).await.map_err(fault::of)?;
        // What is the same before and after was there in between.
        if run.is_none() || link.run() != run {
            return Ok(None);
        }
        let (next, found) = scanned(answer).inspect_err(|_| link.reset("it gave no answer of SCAN"))?;
        lines.extend(asked(store, &found).await?);
        if next == b"0" {
            return Ok(Some(lines));
        }
        cursor = next;
    }
}

/// The lines of these keys, as far as they are lines where somebody lives.
async fn asked(store: &RedisStore, found: &[Vec<u8>]) -> Result<Vec<(LockName, Result<Line>)>> {
    let mut lines = Vec::new();
    for keys in by_slot(store, found) {
        for keys in keys.chunks(LINES) {
            let asked = store.0.servers.send(keys[0].slot(), layout::lines(keys, long::SHORT), NoFallback);
            let said = asked.await.map_err(fault::of)?;
            for listed in said.read(|value| layout::lines_answer(keys, value))? {
                lines.extend(line_of(store, listed).await?);
            }
        }
    }
    Ok(lines)
}

/// A long line is asked for by itself. Everybody may have left it meanwhile.
async fn line_of(store: &RedisStore, listed: Listed) -> Result<Option<(LockName, Result<Line>)>> {
    let name = match listed {
        Listed::Line(name, line) => return Ok(Some((name, line))),
        Listed::Long(name) => name,
    };
    Ok(match store.line(&name).await {
        Ok(line) if line.entries.is_empty() => None,
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        line => Some((name, line)),
    })
}

/// Those that may be asked about in one request.
fn by_slot(store: &RedisStore, found: &[Vec<u8>]) -> Vec<Vec<Keys>> {
    let mut groups = std::collections::BTreeMap::<u16, Vec<Keys>>::new();
    for keys in found.iter().filter_map(|key| Keys::scanned(key)) {
        groups.entry(store.0.servers.group(&keys)).or_default().push(keys);
    }
    groups.into_values().collect()
}

/// The next cursor, and what was found.
fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let garbled =
        || Error::new(ErrorKind::Internal, "the server's answer to SCAN is none").with_remedy("lockkeeper doctor");
    let bytes = |value| match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    };
    let Value::Array(answer) = answer else { return Err(garbled()) };
    let Ok([cursor, Value::Array(found)]) = <[Value; 2]>::try_from(answer) else { return Err(garbled()) };
    let found = found.into_iter().map(bytes).collect::<Option<_>>();
    bytes(cursor).zip(found).ok_or_else(garbled)
}
