//! LINE and OBSERVE: a line as it is seen from outside.

use std::time::Duration;

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::{Keys, Seen, meta, scripts};
use crate::fault;
use crate::store::{ClaimId, Entry, Line, Revision};
use crate::wire::Request;
use crate::{Error, LockName, Result};

const LINE: &str = "LINE";
const OBSERVE: &str = "OBSERVE";
/// How the field of a kept claim ends: its owner is gone, and its minimum hold goes on. The field
/// begins with the token.
const KEPT: &[u8] = b"\0\0\0\0kept";

/// Asks for the whole line; with `most`, only if it has at most so many bytes.
pub(crate) fn line(name: &LockName, most: Option<u32>) -> Request {
    Request::eval(
        &scripts::LINE,
        &Keys::of(name).all(),
        &[most.unwrap_or(0).to_string().as_bytes()],
    )
}

/// Whether the answer says only that the line is longer than was wanted.
pub(crate) fn is_longer(answer: &Value) -> bool {
    matches!(answer, Value::Int(_))
}

pub(crate) fn line_answer(name: &LockName, value: &Value) -> Result<Line> {
    read(name, value).map(Read::line)
}

/// The same for a line in a list.
pub(super) fn line_of(name: &LockName, head: &Value, claims: &Value) -> Result<Line> {
    read_parts(name, head, claims).map(Read::line)
}

pub(super) struct Read {
    seen: Seen,
    /// The live claims, in the order of the line.
    pub(super) claims: Vec<(ClaimId, Entry)>,
}

impl Read {
    fn line(self) -> Line {
        Line {
            revision: self.seen.revision(),
            last_token: bytes::token(self.seen.last),
            entries: self.claims.into_iter().map(|(_, entry)| entry).collect(),
        }
    }
}

pub(super) fn read(name: &LockName, value: &Value) -> Result<Read> {
    let Value::Array(parts) = value else { return Err(garbled(LINE)) };
    let [head, claims] = &parts[..] else { return Err(garbled(LINE)) };
    read_parts(name, head, claims)
}

fn read_parts(name: &LockName, head: &Value, claims: &Value) -> Result<Read> {
    let mut head = Reader::new(bytes::bulk(head, LINE)?, LINE);
    let (now, seen) = (head.f64()?, Seen::read(&mut head)?);
    let mut claims = entries(name, claims, now)?;
    claims.sort_by_key(|(_, entry)| entry.token);
    Ok(Read { seen, claims })
}

/// The claims in the fields of a hash. A field whose name is no id is no claim.
fn entries(name: &LockName, value: &Value, now: f64) -> Result<Vec<(ClaimId, Entry)>> {
    let fields: Vec<(&Value, &Value)> = match value {
        Value::Array(values) => {
            values.as_chunks().0.iter().map(|[field, value]| (field, value)).collect()
        }
        Value::Map(fields) => fields.iter().map(|(field, value)| (field, value)).collect(),
        _ => return Err(garbled(LINE)),
    };
    let mut entries = Vec::new();
    for (field, value) in fields {
        let Ok(id) = <[u8; 16]>::try_from(bytes::bulk(field, LINE)?).map(ClaimId::from_bytes)
        else {
            continue;
        };
        let record = bytes::bulk(value, LINE)?;
        // Another program may have written the record.
        let what = |_: Error| {
            fault::foreign_beside(
                &Keys::of(name).shown(),
                &format!("a field of {} bytes", record.len()),
            )
        };
        let entry = entry(&id, now, &mut Reader::new(record, LINE)).map_err(what)?;
        // Leaves out waiters that have died in the middle of the line.
        if entry.expires_in != Some(Duration::ZERO) {
            entries.push((id, entry));
        }
    }
    Ok(entries)
}

fn entry(id: &ClaimId, now: f64, read: &mut Reader<'_>) -> Result<Entry> {
    let (token, expires, since) = (read.f64()?, read.f64()?, read.f64()?);
    let granted = read.u8()? == 1;
    let (capacity, weight) = (read.u32()?, read.u32()?);
    let (_lease, _wait, length) = (read.f64()?, read.u32()?, read.u32()?);
    let shown = read.take(usize::try_from(length).map_err(|_| read.garbled())?)?;
    let shown = meta::read(&mut Reader::new(shown, LINE))?;
    let kept = id.as_bytes().ends_with(KEPT);
    let id = if kept { once(read)? } else { *id };
    Ok(Entry {
        id: id.hash(),
        weight,
        capacity,
        granted,
        kept,
        token: Some(bytes::token(token).ok_or_else(|| read.garbled())?),
        meta: shown.meta,
        age: Some(bytes::time(now - since)),
        expires_in: Some(bytes::time(expires - now)),
        broken: shown.broken,
    })
}

/// The id that a kept claim had. It is behind the end and the length of the minimum hold.
fn once(read: &mut Reader<'_>) -> Result<ClaimId> {
    read.take(16)?;
    Ok(ClaimId::from_bytes(read.array()?))
}

/// Lets the server publish each change of the line for so long, from the answer's revision on, to
/// the [channel of its changes](super::changes_channel); `sharded`: to that of its shard.
pub(crate) fn observe(name: &LockName, sharded: bool, within: Duration) -> Request {
    let to = if sharded { b"s" } else { b"p" };
    let within = super::millis(within).to_string();
    Request::eval(&scripts::OBSERVE, &Keys::of(name).all(), &[to, within.as_bytes()])
}

pub(crate) fn observe_answer(value: &Value) -> Result<Revision> {
    let mut read = Reader::new(bytes::bulk(value, OBSERVE)?, OBSERVE);
    let _now = read.f64()?;
    Ok(Seen::read(&mut read)?.revision())
}
