//! AMEND, EVICT, REQUEST and LINES.

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::channel::{REMOVED, write_words};
use super::{Keys, line, meta, micros, scripts};
use crate::fault;
use crate::store::{Amend, Amended, CHANGE_MAX, ClaimId, ClaimKey, Evict, Evicted, IdHash, Line};
use crate::wire::{Request, WireError};
use crate::{ErrorKind, LockName, Result};

const AMEND: &str = "AMEND";
const REQUEST: &str = "REQUEST";
const LINES: &str = "LINES";

/// Changes a claim. `number` rises with each change of the claim, so a late copy of an older change
/// does nothing.
pub(crate) fn amend(key: &ClaimKey, number: u64, change: &Amend) -> Request {
    let mut what = Vec::new();
    match change {
        Amend::Lower(weight) => {
            what.push(b'l');
            what.extend_from_slice(&weight.to_le_bytes());
        }
        Amend::MinHold(min_hold) => {
            what.push(b'h');
            what.extend_from_slice(&micros(*min_hold).to_le_bytes());
        }
        Amend::Value(value) => {
            what.push(b'v');
            what.extend_from_slice(value);
        }
        Amend::Meta(shown) => {
            what.push(b'm');
            meta::write_shown(shown, &mut what);
        }
    }
    let number = (number.min(CHANGE_MAX) as f64).to_le_bytes();
    Request::eval(&scripts::AMEND, &Keys::of(&key.name).all(), &[key.id.as_bytes(), &number, &what])
}

pub(crate) fn amend_answer(key: &ClaimKey, value: &Value) -> Result<Amended> {
    match value {
        Value::Int(_) => Ok(if done(value, AMEND)? { Amended::Done } else { Amended::NotLive }),
        value => {
            let last = Reader::new(bytes::about(&key.id, value, AMEND)?, AMEND).f64()?;
            bytes::token(last).map(|last| Amended::Older { last }).ok_or_else(|| garbled(AMEND))
        }
    }
}

/// The claim to evict. If only the hash of its id is known, [`find`] finds the claim in its line
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The holder with this raw token.
    Token(u64),
    /// The claim with this id.
    Id(ClaimId),
}

/// The id of the claim that is listed with this hash, in the answer to [`line`](super::line).
pub(crate) fn find(name: &LockName, value: &Value, hash: IdHash) -> Result<Option<ClaimId>> {
    let claims = line::read(name, value)?.claims;
    Ok(claims.into_iter().find(|(_, entry)| entry.id == hash).map(|(id, _)| id))
}

/// Breaks a claim. Its client gets a message, and then each waiter that is granted what the claim
/// held.
pub(crate) fn evict(
    name: &LockName,
    victim: &Victim,
    how: Evict,
    by: &str,
    reason: &str,
) -> Request {
    let target = match victim {
        Victim::Token(token) => [&b"t"[..], &(*token as f64).to_le_bytes()].concat(),
        Victim::Id(id) => [&b"i"[..], id.as_bytes()].concat(),
    };
    let mut broken = write_words(by, reason);
    let how = match how {
        Evict::Mark => b"m",
        Evict::Now => {
            broken.push(REMOVED);
            b"n"
        }
    };
    Request::eval(&scripts::EVICT, &Keys::of(name).all(), &[&target, how, &broken])
}

pub(crate) fn evict_answer(value: &Value) -> Result<Evicted> {
    Ok(if done(value, "EVICT")? { Evicted::Done } else { Evicted::Absent })
}

/// Asks which holders can be asked to release the lock.
pub(crate) fn holders(name: &LockName) -> Request {
    Request::eval(&scripts::REQUEST, &Keys::of(name).all(), &[b""])
}

pub(crate) fn holders_answer(value: &Value) -> Result<Vec<ClaimId>> {
    let (ids, rest) = bytes::bulk(value, REQUEST)?.as_chunks();
    if rest.is_empty() {
        return Ok(ids.iter().copied().map(ClaimId::from_bytes).collect());
    }
    Err(garbled(REQUEST))
}

/// Asks these holders to release the lock, and lets the observers look at the line.
pub(crate) fn request_release(
    name: &LockName,
    holders: &[ClaimId],
    by: &str,
    reason: &str,
) -> Request {
    let ids: Vec<u8> = holders.iter().flat_map(|id| *id.as_bytes()).collect();
    let words = write_words(by, reason);
    Request::eval(&scripts::REQUEST, &Keys::of(name).all(), &[&ids, &words])
}

pub(crate) fn request_answer(value: &Value) -> Result<bool> {
    done(value, REQUEST)
}

/// The pattern for `SCAN` that misses no line of a name with this prefix. It has the first byte of
/// the encoded name, and includes names that are too long for their keys (`h.`): a second pattern
/// would need a second look at all keys. The scan finds other names too. Dots are encoded
/// differently at the end of a name than inside, so they do not count.
pub(crate) fn pattern(prefix: &str) -> String {
    match crate::name::encode(prefix.trim_end_matches('.')).chars().next() {
        None => "lk:{*".to_owned(),
        Some(first) => format!("lk:{{[{first}h]*"),
    }
}

/// Asks for lines that were [scanned](Keys::scanned), for so many bytes of claims at most. In a
/// cluster the lines have one slot.
pub(crate) fn lines(lines: &[Keys], most: u32) -> Request {
    let keys: Vec<&[u8]> = lines.iter().flat_map(Keys::all).collect();
    Request::eval(&scripts::LINES, &keys, &[most.to_string().as_bytes()])
}

/// A line for which the answer had no room.
pub(crate) struct LongLine {
    pub(crate) keys: Keys,
    /// The name of a line that is too long by itself: no line is before it in the answer.
    pub(crate) alone: Option<LockName>,
}

enum Listed {
    /// The line, or why it cannot be read.
    Line(LockName, Result<Line>),
    /// The line is too long for the rest of its answer.
    Long(LockName),
    /// The line is behind such a line.
    Behind,
}

/// The lines with live claims, and the lines that were left out.
#[allow(clippy::type_complexity, reason = "two lists")]
pub(crate) fn lines_answer(
    lines: &[Keys],
    value: &Value,
) -> Result<(Vec<(LockName, Result<Line>)>, Vec<LongLine>)> {
    let Value::Array(values) = value else { return Err(garbled(LINES)) };
    if values.len() != lines.len() {
        return Err(garbled(LINES));
    }
    let (mut whole, mut long) = (Vec::new(), Vec::new());
    for (keys, value) in lines.iter().zip(values) {
        match listed_line(keys, value)? {
            Some(Listed::Line(name, line)) => whole.push((name, line)),
            Some(Listed::Long(name)) => {
                let alone = (whole.is_empty() && long.is_empty()).then_some(name);
                long.push(LongLine { keys: keys.clone(), alone });
            }
            Some(Listed::Behind) => long.push(LongLine { keys: keys.clone(), alone: None }),
            None => {}
        }
    }
    Ok((whole, long))
}

fn listed_line(keys: &Keys, value: &Value) -> Result<Option<Listed>> {
    Ok(match value {
        Value::Int(0) => None,
        Value::Int(2) => Some(Listed::Behind),
        Value::Int(_) => keys.name()?.map(Listed::Long),
        Value::ServerError(error) => {
            let error = fault::about(WireError::from(error.clone()), &keys.shown());
            if error.kind() != ErrorKind::Unsupported {
                return Err(error);
            }
            keys.name()?.map(|name| Listed::Line(name, Err(error)))
        }
        Value::Array(parts) => {
            let [name, head, claims] = &parts[..] else { return Err(garbled(LINES)) };
            let name = match keys.name()? {
                Some(name) => Some(name),
                None => name_of(name)?,
            };
            name.map(|name| {
                let line = line::line_of(&name, head, claims);
                Listed::Line(name, line)
            })
        }
        name => name_of(name)?.map(Listed::Long),
    })
}

/// The name that a claim of the line shows. lockkeeper writes only names there.
fn name_of(value: &Value) -> Result<Option<LockName>> {
    Ok(LockName::new(std::str::from_utf8(bytes::bulk(value, LINES)?).unwrap_or_default()).ok())
}

fn done(value: &Value, what: &'static str) -> Result<bool> {
    match bytes::int(value, what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(garbled(what)),
    }
}
