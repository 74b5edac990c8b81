//! The answers of the scripts.

use std::time::Duration;

use lockkeeper_core::store::{Asked, Broken, ClaimId, Meta};
use lockkeeper_redis_client::wire::Value;

use super::texts::{Texts, read_by_and_reason};

/// How many bytes of a claim's id an answer repeats.
const MARK: usize = 8;

/// The answer of a node about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeAnswer {
    /// The node holds the claim with this number.
    Held { number: u64, asked: Option<Asked> },
    /// Other claims have the lock there, or a waiter may claim first.
    Busy { for_now: Duration, at: u64, holder: Option<Meta> },
    /// The id is retired.
    Gone,
    /// An administrator has broken the claim.
    Broken(Broken),
    /// The node may have forgotten claims, and counts again after this time.
    Forgot(Duration),
    /// The claim is not there.
    Absent,
    /// The claim was there, and was withdrawn.
    Released,
    /// The clients of the node have these servers, and this client has others.
    Members(String),
    /// A key holds a value that lockkeeper has not written.
    Foreign { key: String, kind: String },
}

impl NodeAnswer {
    /// Reads an answer about this claim; `None` if it is no answer to such a request.
    pub(crate) fn read(value: &Value, id: &ClaimId) -> Option<Self> {
        let parts = array(value)?;
        if let Some(foreign) = foreign(parts) {
            return Some(foreign);
        }
        if bytes(parts.first()?)? != &id.as_bytes()[..MARK] {
            return None;
        }
        let number = |at: usize| match parts.get(at)? {
            Value::Int(number) => u64::try_from((*number).max(0)).ok(),
            other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
        };
        let text = |at: usize| bytes(parts.get(at)?);
        Some(match text(1)? {
            b"held" => {
                let asked = read_by_and_reason(text(3)?).map(|(by, reason)| Asked { by, reason });
                Self::Held { number: number(2)?, asked }
            }
            b"busy" => Self::Busy {
                for_now: Duration::from_millis(number(2)?),
                at: number(3)?,
                holder: Texts::read(text(4)?).map(|texts| texts.meta),
            },
            b"gone" => Self::Gone,
            b"broken" => {
                let (by, reason) = read_by_and_reason(text(2)?)?;
                Self::Broken(Broken { by, reason, removed: parts.len() > 3 })
            }
            b"forgot" => Self::Forgot(Duration::from_millis(number(2)?)),
            b"members" => Self::Members(String::from_utf8_lossy(text(2)?).into_owned()),
            b"absent" => Self::Absent,
            b"released" => Self::Released,
            _ => return None,
        })
    }
}

/// The answer to WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The waiter may claim next on this node.
    Free,
    /// So many waiters are before it, and the lock may be free after this time.
    Behind(u64, Duration),
}

/// Reads the answer to WAIT. A foreign value keeps nobody waiting: the next claim reports it.
pub(crate) fn waited(value: &Value) -> Option<Waited> {
    let parts = array(value)?;
    let number = |at: usize| match parts.get(at)? {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match bytes(parts.first()?)? {
        b"free" | b"foreign" => Some(Waited::Free),
        b"wait" => Some(Waited::Behind(number(1)?, Duration::from_millis(number(2)?))),
        _ => None,
    }
}

/// Whether NOTE has found its holder.
pub(crate) fn noted(value: &Value, id: &ClaimId) -> Option<Result<bool, NodeAnswer>> {
    let parts = array(value)?;
    if let Some(foreign) = foreign(parts) {
        return Some(Err(foreign));
    }
    if bytes(parts.first()?)? != &id.as_bytes()[..MARK] {
        return None;
    }
    Some(Ok(bytes(parts.get(1)?)? == b"noted"))
}

/// The ballot and the id that a node has of the store; no ballot if it has none.
pub(crate) fn voted(value: &Value) -> Option<Result<(u64, Vec<u8>), NodeAnswer>> {
    let parts = array(value)?;
    if let Some(foreign) = foreign(parts) {
        return Some(Err(foreign));
    }
    let ballot = std::str::from_utf8(bytes(parts.get(1)?)?).ok()?.parse().ok()?;
    Some(Ok((ballot, bytes(parts.get(2)?)?.to_vec())))
}

/// What a node has of its clients: their `max-keep`, and their servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) max_keep: Option<Duration>,
    pub(crate) members: Option<String>,
    /// Whether the node may have forgotten no claim.
    pub(crate) counts: bool,
}

/// Reads the answer to KEEP.
pub(crate) fn kept(value: &Value) -> Option<Kept> {
    let parts = array(value)?;
    let text = |at: usize| std::str::from_utf8(bytes(parts.get(at)?)?).ok();
    let max_keep = text(1)?.parse().ok().map(Duration::from_millis);
    let members = Some(text(2)?.to_owned()).filter(|members| !members.is_empty());
    Some(Kept { max_keep, members, counts: text(3)? == "1" })
}

/// For how long no claim counts after INIT; `None` if the servers have changed since they were
/// read.
pub(crate) fn counted(value: &Value) -> Option<Duration> {
    match array(value)?.get(1)? {
        Value::Int(millis) => u64::try_from(*millis).ok().map(Duration::from_millis),
        _ => None,
    }
}

/// The run of a server in `lk:born`, and since when its claims count, in ms.
pub(crate) fn born(stored: &str) -> Option<(&str, u64)> {
    let mut words = stored.split(' ');
    Some((words.next()?, words.next()?.parse().ok()?))
}

/// The answer about a key of another program, if it is one.
pub(crate) fn foreign_answer(value: &Value) -> Option<NodeAnswer> {
    foreign(array(value)?)
}

/// The answer about a key of another program.
pub(super) fn foreign(parts: &[Value]) -> Option<NodeAnswer> {
    let [first, key, kind] = parts else { return None };
    let text = |value: &Value| Some(String::from_utf8_lossy(bytes(value)?).into_owned());
    (bytes(first)? == b"foreign")
        .then(|| Some(NodeAnswer::Foreign { key: text(key)?, kind: text(kind)? }))
        .flatten()
}

pub(super) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(parts) => Some(parts),
        _ => None,
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &ClaimId, parts: &[&[u8]]) -> Value {
        let mark = Value::BulkString(id.as_bytes()[..MARK].to_vec());
        let rest = parts.iter().map(|part| Value::BulkString(part.to_vec()));
        Value::Array(std::iter::once(mark).chain(rest).collect())
    }

    #[test]
    fn an_answer_belongs_to_its_claim() {
        let (id, other) = (ClaimId::random(), ClaimId::random());
        let held = answer(&id, &[b"held", b"7", b""]);
        let expected = NodeAnswer::Held { number: 7, asked: None };
        assert_eq!(NodeAnswer::read(&held, &id), Some(expected));
        assert_eq!(NodeAnswer::read(&held, &other), None);
        assert_eq!(NodeAnswer::read(&answer(&id, &[b"what"]), &id), None);
        assert_eq!(NodeAnswer::read(&Value::Okay, &id), None);
    }

    #[test]
    fn a_foreign_value_is_named_with_its_key() {
        let parts = ["foreign", "lk:r:{a}", "list"].map(|part| Value::BulkString(part.into()));
        let read = NodeAnswer::read(&Value::Array(parts.to_vec()), &ClaimId::random());
        let (key, kind) = ("lk:r:{a}".to_owned(), "list".to_owned());
        assert_eq!(read, Some(NodeAnswer::Foreign { key, kind }));
    }
}
