//! The answers of the scripts.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_redis_client::fault::foreign_id;

use super::holders::{Holder, Holders, Record};
use super::owner::shown;
use super::{Keys, Layout, owner};
use crate::store::{
    Amended, Asked, Broken, Claim, ClaimId, ClaimKey, Evicted, Live, LiveState, MAX, Meta, Renewal,
    Revision, StoreId, Verdict, Withdrawal, refusal,
};
use crate::wire::Value;
use crate::{Error, ErrorKind, Result, fault};

/// A time that a script gives is rounded.
const MOMENT: Duration = Duration::from_millis(1);
/// A waiter looks again after this time at the latest.
const LOOK: Duration = Duration::from_secs(5);
/// How the id begins if lockkeeper has written it.
const OURS: &[u8] = b"lockkeeper-store:";

/// Reads values in their order.
struct Reader<'a>(std::slice::Iter<'a, Value>, &'static str);

impl<'a> Reader<'a> {
    fn of(value: &'a Value, what: &'static str) -> Result<Self> {
        match value {
            Value::Array(all) => Ok(Self(all.iter(), what)),
            _ => Err(garbled(what)),
        }
    }

    /// The answer about a claim, behind its owner.
    fn about(value: &'a Value, owner: &[u8], what: &'static str) -> Result<Self> {
        let mut read = Self::of(value, what)?;
        if read.bytes()? == owner { Ok(read) } else { Err(garbled(what)) }
    }

    fn next(&mut self) -> Result<&'a Value> {
        self.0.next().ok_or_else(|| garbled(self.1))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        bytes(self.next()?).ok_or_else(|| garbled(self.1))
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Result<T> {
        match self.next()? {
            Value::Int(number) => T::try_from(*number).map_err(|_| garbled(self.1)),
            _ => Err(garbled(self.1)),
        }
    }

    fn micros(&mut self) -> Result<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn text(&mut self) -> Result<Arc<str>> {
        Ok(String::from_utf8_lossy(self.bytes()?).into())
    }

    fn optional(&mut self) -> Result<Option<&'a [u8]>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            value => bytes(value).map(Some).ok_or_else(|| garbled(self.1)),
        }
    }

    fn optional_text(&mut self) -> Result<Option<Arc<str>>> {
        Ok(self.optional()?.map(|text| String::from_utf8_lossy(text).into()))
    }

    fn flag(&mut self) -> Result<bool> {
        Ok(matches!(self.next()?, Value::Int(1) | Value::Boolean(true)))
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

/// The answer is none of the script.
pub(crate) fn garbled(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("the server's answer to {what} is none"))
        .with_unknown_effect()
        .with_remedy("lockkeeper doctor")
}

/// The answer to CLAIM, and the line of a lock that others hold.
pub(crate) fn claim_answer(
    layout: Layout,
    claim: &Claim,
    value: &Value,
) -> Result<(Verdict, Option<Holders>)> {
    let owner = owner(layout, &claim.key.id);
    let mut read = Reader::about(value, &owner, "CLAIM")?;
    Ok(match read.bytes()? {
        b"h" => (Verdict::Granted { token: read.number()?, ttl: read.micros()? }, None),
        b"g" => (Verdict::Gone, None),
        b"e" => return Err(refusal::epoch(read.number()?, claim.meta.epoch)),
        b"b" => {
            let holders = holders(read.next()?)?;
            let holder = holders.granted().next().map(|first| first.entry(layout).meta.owner);
            let (retry_after, seen) = (holders.retry_after(), holders.revision());
            (Verdict::Busy { holder, retry_after, seen }, Some(holders))
        }
        b"q" => {
            let (ahead, left) = (read.number()?, read.number::<i64>()?);
            let left = u64::try_from(left).map_or(LOOK, Duration::from_millis);
            // A line may have changed since, and the wait for a claim does not compare it.
            let seen = Revision::default();
            (Verdict::Queued { ahead, seen, look_again: left.min(LOOK) + MOMENT }, None)
        }
        b"f" => return Err(refusal::queue_full(read.number()?)),
        _ => return Err(garbled("CLAIM")),
    })
}

/// What a look at a claim that waits has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Granted(u64),
    Waits,
    /// The claim is not there, or has to be sent again.
    Again,
}

pub(crate) fn look_answer(layout: Layout, id: &ClaimId, value: &Value) -> Result<Place> {
    let mut read = Reader::about(value, &owner(layout, id), "LOOK")?;
    match read.bytes()? {
        b"h" => Ok(Place::Granted(read.number()?)),
        b"q" => Ok(Place::Waits),
        b"a" => Ok(Place::Again),
        _ => Err(garbled("LOOK")),
    }
}

/// The answer to RENEW, and the request to release that the claim has.
pub(crate) fn renew_answer(
    layout: Layout,
    live: &Live,
    value: &Value,
) -> Result<(Renewal, Option<Asked>)> {
    let mut read = Reader::about(value, &owner(layout, &live.key.id), "RENEW")?;
    match read.bytes()? {
        b"h" => {
            let held = Renewal::Held { token: read.number()?, ttl: read.micros()? };
            let (by, reason) = (read.optional_text()?, read.optional_text()?);
            Ok((held, by.zip(reason).map(|(by, reason)| Asked { by, reason })))
        }
        b"q" => Ok((Renewal::Queued, None)),
        // A copy of the claim may still be on its way. Only a granted claim can have been broken.
        b"l" if live.state == LiveState::InFlight && read.0.len() < 2 => {
            Ok((Renewal::Unknown, None))
        }
        b"l" => Ok((Renewal::Lost(broken(layout, &mut read)?), None)),
        _ => Err(garbled("RENEW")),
    }
}

/// Who has broken the claim, or which other program has the lock.
fn broken(layout: Layout, read: &mut Reader<'_>) -> Result<Option<Broken>> {
    Ok(match read.0.len() {
        0 => None,
        1 => Some(Broken {
            by: "another program".into(),
            reason: format!(
                "{} now holds {} of this name, without lockkeeper",
                shown(read.bytes()?),
                layout.lock()
            )
            .into(),
            removed: true,
        }),
        _ => Some(Broken { by: read.text()?, reason: read.text()?, removed: read.flag()? }),
    })
}

/// What a withdrawal has found.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) withdrawal: Withdrawal,
    /// How many clients the message about the release goes to.
    pub(crate) receivers: u32,
    /// The owners that still hold the lock.
    pub(crate) left: Vec<Vec<u8>>,
}

pub(crate) fn withdraw_answer(layout: Layout, id: &ClaimId, value: &Value) -> Result<Released> {
    let mut read = Reader::about(value, &owner(layout, id), "WITHDRAW")?;
    let (withdrawal, receivers) = match read.number::<u32>()? {
        0 => (Withdrawal::Absent, 0),
        removed => (Withdrawal::Removed, removed - 1),
    };
    let left = read.0.map(|value| bytes(value).map(<[u8]>::to_vec)).collect::<Option<_>>();
    Ok(Released { withdrawal, receivers, left: left.ok_or_else(|| garbled("WITHDRAW"))? })
}

pub(crate) fn amend_answer(layout: Layout, key: &ClaimKey, value: &Value) -> Result<Amended> {
    let mut read = Reader::about(value, &owner(layout, &key.id), "AMEND")?;
    match read.number::<u8>()? {
        0 => Ok(Amended::NotLive),
        1 => Ok(Amended::Done),
        2 => Ok(Amended::Older { last: read.number()? }),
        _ => Err(garbled("AMEND")),
    }
}

/// The answer to EVICT. `None` if the holder is no client of lockkeeper, and only a removal is
/// possible.
pub(crate) fn evict_answer(owner: &[u8], value: &Value) -> Result<Option<Evicted>> {
    match Reader::about(value, owner, "EVICT")?.number::<u8>()? {
        0 => Ok(Some(Evicted::Absent)),
        1 => Ok(Some(Evicted::Done)),
        2 => Ok(None),
        _ => Err(garbled("EVICT")),
    }
}

/// How many readers were removed.
pub(crate) fn swept_answer(value: &Value) -> Result<u32> {
    match value {
        Value::Int(count) => u32::try_from(*count).map_err(|_| garbled("SWEEP")),
        _ => Err(garbled("SWEEP")),
    }
}

/// The answer to LINE about one lock.
pub(crate) fn line_answer(keys: &Keys, value: &Value) -> Result<Holders> {
    let mut lines = line_answers(std::slice::from_ref(keys), value)?;
    lines.pop().unwrap_or_else(|| Err(garbled("LINE")))
}

/// The answer to LINE, a line for each of these keys.
pub(crate) fn line_answers(keys: &[Keys], value: &Value) -> Result<Vec<Result<Holders>>> {
    let Value::Array(lines) = value else { return Err(garbled("LINE")) };
    if lines.len() != keys.len() {
        return Err(garbled("LINE"));
    }
    let line = |(value, keys): (&Value, &Keys)| match value {
        // What the script has found in the place of one line of several.
        Value::ServerError(error) => Err(fault::about(error.clone().into(), keys)),
        value => holders(value),
    };
    Ok(lines.iter().zip(keys).map(line).collect())
}

fn holders(value: &Value) -> Result<Holders> {
    let mut read = Reader::of(value, "LINE")?;
    let last_token = read.number()?;
    let all = read.0.map(holder).collect::<Result<_>>()?;
    Ok(Holders { last_token, all })
}

fn holder(value: &Value) -> Result<Holder> {
    let mut read = Reader::of(value, "LINE")?;
    let owner = read.bytes()?.to_vec();
    let left = read.number::<i64>()?;
    let (weight, age) = (read.number()?, read.number::<i64>()?);
    let record = match read.next()? {
        Value::Nil => None,
        value => Some(record(value)?),
    };
    let number: u64 = read.number()?;
    Ok(Holder {
        owner,
        left: u64::try_from(left).ok().map(Duration::from_millis),
        weight,
        number: u32::try_from(number).unwrap_or(MAX).min(MAX - 1),
        age: Duration::from_micros(u64::try_from(age).unwrap_or_default()),
        record,
    })
}

fn record(value: &Value) -> Result<Record> {
    let mut read = Reader::of(value, "LINE")?;
    let token = read.number()?;
    let (_ttl, _delay) = (read.micros()?, read.micros()?);
    let (weight, capacity, change) = (read.number()?, read.number()?, read.number()?);
    let _since = read.number::<i64>()?;
    let epoch = read.number()?;
    let meta = Meta {
        epoch,
        owner: read.text()?,
        reason: read.optional_text()?,
        value: read.optional()?.map(Arc::from),
    };
    let (by, reason, removed) = (read.optional_text()?, read.optional_text()?, read.flag()?);
    let broken = by.zip(reason).map(|(by, reason)| Broken { by, reason, removed });
    let asked = read.optional()?.is_some();
    Ok(Record { token, weight, capacity, change, meta, broken, asked })
}

pub(crate) fn id_answer(layout: Layout, value: &Value) -> Result<StoreId> {
    let stored = bytes(value).ok_or_else(|| garbled("ID"))?;
    let id = stored.strip_prefix(OURS).and_then(StoreId::read);
    // The layouts have their locks beside each other.
    id.map(|id| id.of_part(layout.name()))
        .ok_or_else(|| foreign_id(super::ID_KEY, &format!("a string of {} bytes", stored.len())))
}

/// Whether a detached session was closed.
pub(crate) fn is_closed(value: &Value) -> Result<bool> {
    match value {
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        _ => Err(garbled("SESSION")),
    }
}
