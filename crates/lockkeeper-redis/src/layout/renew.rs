//! RENEW and WITHDRAW: what a client does with claims that it has made.

use std::time::Duration;

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::channel::{asked, broken};
use super::{Keys, millis, scripts};
use crate::fault;
use crate::store::{Asked, ClaimId, ClaimKey, Live, LiveState, Renewal, Renewed, Withdrawal};
use crate::wire::{Request, WireError};
use crate::{Error, Result};

const WHAT: &str = "RENEW";

/// One call for all claims. In a cluster their names have one slot.
pub(crate) fn renew(live: &[Live]) -> Request {
    let keys: Vec<Keys> = live.iter().map(|live| Keys::of(&live.key.name)).collect();
    let keys: Vec<&[u8]> = keys.iter().flat_map(Keys::all).collect();
    let ids: Vec<[u8; 17]> = live.iter().map(|live| alone(&live.key.id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(<[u8; 17]>::as_slice).collect();
    Request::eval(&scripts::RENEW, &keys, &ids)
}

/// How the record of a claim that is alone in its line begins.
fn alone(id: &ClaimId) -> [u8; 17] {
    let mut bytes = [super::ALONE; 17];
    bytes[1..].copy_from_slice(id.as_bytes());
    bytes
}

pub(crate) fn renew_answer(live: &[Live], value: &Value) -> Result<Renewed> {
    let Value::Array(values) = value else { return Err(garbled(WHAT)) };
    match values.split_last() {
        Some((now, values)) if values.len() == live.len() && !live.is_empty() => {
            let now = Reader::new(bytes::about(&live[0].key.id, now, WHAT)?, WHAT).f64()?;
            let (mut claims, mut requests) = (Vec::with_capacity(live.len()), Vec::new());
            for (live, value) in live.iter().zip(values) {
                let (renewal, asked) = renewal(live, value)?;
                claims.push(renewal);
                requests.extend(asked.map(|asked| (live.key.id, asked)));
            }
            Ok(Renewed { claims, server_time: Some(bytes::time(now)), requests })
        }
        _ => Err(garbled(WHAT)),
    }
}

/// The answer about one claim, and the request to release it.
fn renewal(live: &Live, value: &Value) -> Result<(Renewal, Option<Asked>)> {
    let held = |token: i64, ttl: i64| {
        let token = bytes::token(token as f64).ok_or_else(|| garbled(WHAT))?;
        Ok::<_, Error>(Renewal::Held { token, ttl: bytes::time(ttl as f64) })
    };
    let renewal = match value {
        // The claim was not renewed: the rest of its line cannot be read, or not be written.
        Value::ServerError(error) => {
            let key = Keys::of(&live.key.name).shown();
            Renewal::Failed(fault::about(WireError::from(error.clone()), &key))
        }
        Value::Int(0) => Renewal::Queued,
        Value::Int(-1) if live.state == LiveState::InFlight => Renewal::Unknown,
        Value::Int(-1) => Renewal::Lost(None),
        Value::Int(_) => return Err(garbled(WHAT)),
        Value::Array(parts) => {
            let [Value::Int(token), Value::Int(ttl), words @ ..] = &parts[..] else {
                return Err(garbled(WHAT));
            };
            let asked = match words {
                [] => None,
                [words] => Some(asked(&mut Reader::new(bytes::bulk(words, WHAT)?, WHAT))?),
                _ => return Err(garbled(WHAT)),
            };
            return Ok((held(*token, *ttl)?, asked));
        }
        value => {
            let mut read = Reader::new(bytes::bulk(value, WHAT)?, WHAT);
            Renewal::Lost(Some(broken(&mut read)?))
        }
    };
    Ok((renewal, None))
}

pub(crate) fn withdraw(key: &ClaimKey, tombstone: Option<Duration>) -> Request {
    let keys = Keys::of(&key.name);
    let tombstone = tombstone.map_or(0, millis).to_string();
    Request::eval(&scripts::WITHDRAW, &keys.all(), &[&alone(&key.id), tombstone.as_bytes()])
}

pub(crate) fn withdraw_answer(value: &Value) -> Result<Withdrawal> {
    match bytes::int(value, "WITHDRAW")? {
        1 => Ok(Withdrawal::Removed),
        0 => Ok(Withdrawal::Absent),
        _ => Err(garbled("WITHDRAW")),
    }
}
