//! AMEND, EVICT, REQUEST and NAMES.

use redis::Value;

use super::bytes::{self, garbled};
use super::channel::{REMOVED, write_words};
use super::{ClientId, Keys, line, meta, micros, scripts};
use crate::backend::redis::fault;
use crate::backend::redis::wire::{Request, WireError};
use crate::store::{Amend, Amended, ClaimId, ClaimKey, Evict, Evicted, IdHash};
use crate::{ErrorKind, LockName, Result};

/// Changes a claim. `number` rises with each change that this client asks for: a late copy of an older one does nothing.
pub(in crate::backend::redis) fn amend(key: &ClaimKey, change: &Amend, client: &ClientId, number: u64) -> Request {
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
    let number = [&client.as_bytes()[..], &(number as f64).to_le_bytes()].concat();
    Request::eval(&scripts::AMEND, &Keys::of(&key.name).all(), &[key.id.as_bytes(), &number, &what])
}

pub(in crate::backend::redis) fn amend_answer(value: &Value) -> Result<Amended> {
    Ok(if done(value, "AMEND")? { Amended::Done } else { Amended::NotLive })
}

/// Whom to evict. A claim that is known by the hash of its id has to be [found](find) in its line first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::redis) enum Victim {
    /// The holder with this raw token.
    Token(u64),
    /// The claim with this id.
    Id(ClaimId),
}

/// The id of the claim that is listed with this hash, in the answer to [`line`](super::line).
pub(in crate::backend::redis) fn find(name: &LockName, value: &Value, hash: IdHash) -> Result<Option<ClaimId>> {
    let claims = line::read(name, value)?.claims;
    Ok(claims.into_iter().find(|(_, entry)| entry.id == hash).map(|(id, _)| id))
}

/// Breaks a claim. Its client hears of it, and then those who are granted what it held.
pub(in crate::backend::redis) fn evict(name: &LockName, whom: &Victim, how: Evict, by: &str, reason: &str) -> Request {
    let whom = match whom {
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
    Request::eval(&scripts::EVICT, &Keys::of(name).all(), &[&whom, how, &broken])
}

pub(in crate::backend::redis) fn evict_answer(value: &Value) -> Result<Evicted> {
    Ok(if done(value, "EVICT")? { Evicted::Done } else { Evicted::Absent })
}

/// Asks all who hold to let go, and lets the observers of the line look at it.
pub(in crate::backend::redis) fn request_release(name: &LockName, by: &str, reason: &str) -> Request {
    Request::eval(&scripts::REQUEST, &Keys::of(name).all(), &[&write_words(by, reason)])
}

pub(in crate::backend::redis) fn request_answer(value: &Value) -> Result<bool> {
    done(value, "REQUEST")
}

/// What to `SCAN` for, so that no line of a name with this prefix is missed: one pattern, and one for names that are
/// too long for their keys. Others are found too. Dots are written otherwise at an end than inside, so they do not count.
pub(in crate::backend::redis) fn patterns(prefix: &str) -> [String; 2] {
    let stable = prefix.trim_end_matches('.');
    [format!("lk:{{{}*", crate::name::encode(stable)), "lk:{h.*".to_owned()]
}

/// Asks of lines that were [scanned](Keys::scanned) whether anybody lives there. In a cluster they have one slot.
pub(in crate::backend::redis) fn names(lines: &[Keys]) -> Request {
    let keys: Vec<&[u8]> = lines.iter().flat_map(Keys::all).collect();
    Request::eval(&scripts::NAMES, &keys, &[])
}

/// The names of those where somebody lives.
pub(in crate::backend::redis) fn names_answer(lines: &[Keys], value: &Value) -> Result<Vec<LockName>> {
    let Value::Array(values) = value else { return Err(garbled("NAMES")) };
    if values.len() != lines.len() {
        return Err(garbled("NAMES"));
    }
    let mut names = Vec::new();
    for (keys, value) in lines.iter().zip(values) {
        match value {
            Value::Int(0) => {}
            Value::Int(_) => names.extend(keys.name()?),
            Value::ServerError(error) => {
                let error = fault::about(WireError::from(error.clone()), &keys.shown());
                // It holds what cannot be read. A look at that name says what.
                if error.kind() != ErrorKind::Unsupported {
                    return Err(error);
                }
                names.extend(keys.name()?);
            }
            hashed => {
                // As a claim there says it: what is no name, nobody of ours has written.
                let name = std::str::from_utf8(bytes::bulk(hashed, "NAMES")?).unwrap_or_default();
                names.extend(LockName::new(name).ok());
            }
        }
    }
    Ok(names)
}

fn done(value: &Value, what: &'static str) -> Result<bool> {
    match bytes::int(value, what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(garbled(what)),
    }
}
