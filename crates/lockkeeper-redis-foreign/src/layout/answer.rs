//! The answers of the scripts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_redis_client::fault::foreign_id;

use super::owner::shown;
use super::{Keys, Layout, claim_id, owner};
use crate::store::{
    Amended, Asked, Broken, Claim, ClaimId, ClaimKey, Entry, Evicted, Line, Live, LiveState, MAX,
    Meta, Renewal, Revision, StoreId, Target, Verdict, Withdrawal, refusal,
};
use crate::wire::Value;
use crate::{Error, ErrorKind, Result, fault};

/// How the id begins if lockkeeper has written it.
const OURS: &[u8] = b"lockkeeper-store:";

/// The claims that hold a lock.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    last_token: u64,
    pub(crate) all: Vec<Holder>,
}

/// A claim that holds a lock.
#[derive(Debug)]
pub(crate) struct Holder {
    /// As the key of the lock has it.
    pub(crate) owner: Vec<u8>,
    /// How long it lives; `None` for ever.
    left: Option<Duration>,
    weight: u32,
    /// How many permits the semaphore has; 0 for other locks.
    number: u32,
    age: Duration,
    /// What a client of lockkeeper has written beside the key.
    record: Option<Record>,
}

#[derive(Debug)]
struct Record {
    token: u64,
    weight: u32,
    capacity: u32,
    change: u64,
    meta: Meta,
    broken: Option<Broken>,
    asked: bool,
}

impl Holders {
    /// Changes with every change of the line.
    pub(crate) fn revision(&self) -> Revision {
        let mut hash = DefaultHasher::new();
        let mut all: Vec<_> =
            self.all.iter().map(|holder| (&holder.owner, holder.state())).collect();
        all.sort();
        (self.last_token, all).hash(&mut hash);
        Revision(hash.finish())
    }

    /// Whether a program without lockkeeper holds the lock.
    pub(crate) fn has_stranger(&self) -> bool {
        self.all.iter().any(|holder| holder.record.is_none())
    }

    /// The owners that hold a read-write lock as readers.
    pub(crate) fn readers(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().filter(|holder| holder.weight == 1).map(|holder| &holder.owner[..])
    }

    /// Whether this can be a lock of the layout, and no other sorted set: each permit is one of
    /// lockkeeper, or has the length of the permits of Redisson. The scripts look at hashes.
    pub(crate) fn is_lock(&self, layout: Layout) -> bool {
        let is_permit = |holder: &Holder| holder.record.is_some() || holder.owner.len() == 16;
        layout != Layout::RedissonSemaphore || self.all.iter().all(is_permit)
    }

    /// The owner of the claim with this token, or with this hash of its id.
    pub(crate) fn find(&self, layout: Layout, target: &Target) -> Option<&[u8]> {
        let is_meant = |holder: &&Holder| match target {
            Target::Token(token) => holder.record.as_ref().is_some_and(|own| own.token == *token),
            Target::Id(hash) => claim_id(layout, &holder.owner).hash() == *hash,
        };
        self.all.iter().find(is_meant).map(|holder| &holder.owner[..])
    }

    pub(crate) fn line(&self, layout: Layout) -> Line {
        let mut entries: Vec<_> = self.all.iter().map(|holder| holder.entry(layout)).collect();
        entries.sort_by_key(|entry| entry.token);
        Line {
            revision: self.revision(),
            last_token: (self.last_token > 0).then_some(self.last_token),
            entries,
        }
    }

    /// The end of the last holder. A lock without an end ends by a message.
    fn retry_after(&self) -> Option<Duration> {
        self.all.iter().filter_map(|holder| holder.left).min()
    }
}

impl Holder {
    fn state(&self) -> (u64, u64, bool, bool) {
        self.record.as_ref().map_or((0, 0, false, false), |record| {
            (record.token, record.change, record.broken.is_some(), record.asked)
        })
    }

    fn entry(&self, layout: Layout) -> Entry {
        let own = self.record.as_ref();
        let (weight, capacity) = match own {
            // All clients share the number in Redis, whatever number a claim has named.
            _ if self.number > 0 => (own.map_or(1, |record| record.weight), self.number),
            Some(record) => (record.weight, record.capacity),
            None if self.weight == 0 || !layout.is_shared() => (MAX, MAX),
            None => (1, MAX),
        };
        Entry {
            id: claim_id(layout, &self.owner).hash(),
            weight,
            capacity,
            granted: true,
            kept: false,
            token: own.map(|record| record.token),
            meta: own.map_or_else(|| self.stranger(layout), |record| record.meta.clone()),
            age: own.map(|_| self.age),
            expires_in: self.left,
            broken: own.and_then(|record| record.broken.clone()),
        }
    }

    /// What is shown of a program without lockkeeper.
    fn stranger(&self, layout: Layout) -> Meta {
        let endless =
            || format!("it has no ttl, so it stays if its program dies; {}", layout.end());
        let reason = self.left.is_none().then(|| endless().into());
        Meta { owner: shown(&self.owner).into(), reason, ..Meta::default() }
    }
}

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
            let holder = holders.all.first().map(|first| first.entry(layout).meta.owner);
            let (retry_after, seen) = (holders.retry_after(), holders.revision());
            (Verdict::Busy { holder, retry_after, seen }, Some(holders))
        }
        _ => return Err(garbled("CLAIM")),
    })
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
