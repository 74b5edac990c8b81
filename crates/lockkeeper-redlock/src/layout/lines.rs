//! The lines of a node, as READ answers.

use std::time::Duration;

use lockkeeper_core::store::{Broken, ClaimId};
use lockkeeper_redis_client::wire::Value;

use super::answers::{NodeAnswer, array, bytes, foreign};
use super::texts::{Texts, read_by_and_reason};

/// The fixed part of a record: number, expiry, time of the grant, keep, and whether it is alone.
const HEAD: usize = 33;

/// One line on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLine {
    /// The last number that the node has assigned.
    pub(crate) fence: u64,
    pub(crate) holders: Vec<Holder>,
    /// Whether the node may have forgotten no claim.
    pub(crate) counts: bool,
}

/// A holder on one node.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) id: ClaimId,
    pub(crate) number: u64,
    pub(crate) exclusive: bool,
    pub(crate) age: Duration,
    pub(crate) expires_in: Duration,
    pub(crate) broken: Option<Broken>,
    pub(crate) texts: Texts,
}

/// Reads the answer to READ about `count` lines; `None` if it is no such answer.
pub(crate) fn lines(value: &Value, count: usize) -> Option<Vec<Result<NodeLine, NodeAnswer>>> {
    let all = array(value).filter(|all| all.len() == count)?;
    all.iter().map(line).collect()
}

fn line(value: &Value) -> Option<Result<NodeLine, NodeAnswer>> {
    let parts = array(value)?;
    if let Some(foreign) = foreign(parts) {
        return Some(Err(foreign));
    }
    let [_, Value::Int(now), fence, holders, Value::Int(counts)] = parts else { return None };
    let fence = std::str::from_utf8(bytes(fence)?).ok()?.parse().ok()?;
    let now = u64::try_from(*now).ok()?;
    let holders = array(holders)?.iter().map(|value| holder(value, now)).collect::<Option<_>>()?;
    Some(Ok(NodeLine { fence, holders, counts: *counts == 1 }))
}

fn holder(value: &Value, now: u64) -> Option<Holder> {
    let [id, record, broken] = array(value)? else { return None };
    let id = ClaimId::from_bytes(bytes(id)?.try_into().ok()?);
    let (head, texts) = bytes(record)?.split_first_chunk::<HEAD>()?;
    let at = |at: usize| -> Option<u64> {
        let number = f64::from_le_bytes(head[8 * at..8 * at + 8].try_into().ok()?);
        // A script writes whole numbers below 2^53 only.
        (0.0..9_007_199_254_740_992.0).contains(&number).then_some(number as u64)
    };
    let broken = read_by_and_reason(bytes(broken)?);
    Some(Holder {
        id,
        number: at(0)?,
        exclusive: head[HEAD - 1] == 1,
        age: Duration::from_millis(now.saturating_sub(at(2)?)),
        expires_in: Duration::from_millis(at(1)?.saturating_sub(now)),
        broken: broken.map(|(by, reason)| Broken { by, reason, removed: false }),
        texts: Texts::read(texts)?,
    })
}
