//! The status of a claim in its line, and what blocks it.

use bytes::Bytes;

use super::layout::transaction::{all, get, last, only, range, ranges, transaction};
use super::layout::{Contender, Layout, Record, Span, admissions, ahead_of};
use super::predecessors::{Predecessors, SHORT_QUEUE};
use super::wire::messages::{RangeRequest, RangeResponse, TxnResponse};
use super::{EtcdStore, fault};
use crate::Result;
use crate::store::{Broken, MAX};

/// How many claims are looked at in one transaction: etcd takes 128 operations.
const AT_ONCE: usize = 50;

/// A question about a claim.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) line: Span,
    pub(super) key: Bytes,
    /// The revision that made it; 0 if that is not known.
    pub(super) created: i64,
    /// It takes everything, so that it waits for everybody before it.
    pub(super) exclusive: bool,
    /// All predecessors are asked for, if the queue is short.
    pub(super) short_queue: bool,
}

/// The status of a claim in its line.
#[derive(Clone, Debug)]
pub(super) enum ClaimStatus {
    /// It is not there, or only its minimum hold is.
    Absent,
    /// It is marked as broken.
    Broken(Broken),
    /// It is admitted.
    First(Box<Found>),
    /// It waits.
    Behind { created: i64, lease: i64, blocked_by: BlockedBy },
}

/// A claim that is admitted, as it was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) created: i64,
    /// The revision that changed it last.
    pub(super) changed: i64,
    pub(super) lease: i64,
    pub(super) record: Option<Record>,
}

impl Found {
    /// Whether it is on the timer of its minimum hold.
    pub(super) fn is_timed(&self) -> bool {
        self.record.as_ref().and_then(|record| record.keep.as_ref()).is_some_and(|keep| keep.lease == self.lease)
    }
}

/// What blocks a waiting claim: the keys whose change can admit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockedBy {
    pub(super) what: Span,
    /// Only its end matters.
    pub(super) only_its_end: bool,
    /// All predecessors, if the watch shows their ends and all of them are on other leases than ours: when they are
    /// gone, this claim is the first.
    pub(super) ahead: Option<Predecessors>,
    /// The last one before a claim that takes everything, and the revision that made it: while it is there, so is somebody.
    pub(super) last: Option<(Bytes, i64)>,
}

impl BlockedBy {
    /// Whether one watch shows the ends of all predecessors.
    pub(super) fn is_short(&self) -> bool {
        self.only_its_end && !self.what.to.is_empty()
    }
}

impl EtcdStore {
    /// The status of these claims now.
    pub(super) async fn look(&self, asked: &[Asked]) -> Result<Vec<ClaimStatus>> {
        let mut found = Vec::with_capacity(asked.len());
        for asked in asked.chunks(AT_ONCE) {
            // Many claims of one line have the same question.
            let mut lines: Vec<RangeRequest> = Vec::new();
            let mut line_of = |asked: &Asked| {
                let line = self.before(asked);
                lines.iter().position(|known| *known == line).unwrap_or_else(|| {
                    lines.push(line);
                    lines.len() - 1
                })
            };
            let indices: Vec<_> = asked.iter().map(&mut line_of).collect();
            let questions = asked.iter().map(|asked| get(&asked.key)).chain(lines.into_iter().map(range)).collect();
            let request = transaction(Vec::new(), questions, Vec::new());
            let answer: TxnResponse =
                self.0.calls.ask("/etcdserverpb.KV/Txn", request).await.map_err(|e| fault::of(e).without_effect())?;
            let mut answers: Vec<_> = ranges(answer.responses).collect();
            let lines = answers.split_off(asked.len().min(answers.len()));
            for ((asked, own), line) in asked.iter().zip(answers).zip(indices) {
                found.push(self.status(asked, Some(own), lines.get(line).cloned()));
            }
        }
        Ok(found)
    }

    /// A claim that is where it was, behind the one that was the last before it; `None` where that has to be found out.
    /// etcd looks at two keys for that, and not at a whole line.
    pub(super) async fn still_behind(&self, asked: &Asked, blocked_by: &BlockedBy) -> Result<Option<Contender>> {
        let Some((last, made)) = blocked_by.last.as_ref().filter(|_| asked.exclusive && asked.created != 0) else {
            return Ok(None);
        };
        let request = transaction(Vec::new(), vec![get(&asked.key), get(last)], Vec::new());
        let asking = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        let answer: TxnResponse = asking.map_err(|error| fault::of(error).without_effect())?;
        let mut answers = ranges(answer.responses);
        let own = only(answers.next()).filter(|own| own.create_revision == asked.created).map(Contender::read);
        let last = only(answers.next()).filter(|last| last.create_revision == *made).map(Contender::read);
        let is_there = last.is_some() && !self.ends_overdue(last.as_slice()).await;
        Ok(own.filter(|own| is_there && !own.is_over()))
    }

    /// Of a claim that takes everything only the last before it matter, since every key of a native line is a contender;
    /// and not what they show.
    fn before(&self, asked: &Asked) -> RangeRequest {
        let keys_only = asked.exclusive;
        let most = if asked.short_queue { SHORT_QUEUE + 1 } else { 2 };
        match asked.exclusive && asked.created != 0 && self.0.lines.layout == Layout::Native {
            true => RangeRequest { keys_only, ..last(most, &asked.line, Some(asked.created)) },
            false => RangeRequest { keys_only, ..all(&asked.line) },
        }
    }

    fn status(&self, asked: &Asked, own: Option<RangeResponse>, line: Option<RangeResponse>) -> ClaimStatus {
        let Some(own) = only(own) else { return ClaimStatus::Absent };
        let own = Contender::read(own);
        let line = Contender::all(&self.0.lines, &asked.line, line.map(|line| line.kvs).unwrap_or_default());
        status_of(&own, ahead_of(&line, own.created), asked.short_queue)
    }
}

/// The status of a claim behind these predecessors. For an exclusive claim the last two predecessors are enough, or
/// with `short_queue` one more than the longest short queue.
pub(super) fn status_of(own: &Contender, ahead: &[Contender], short_queue: bool) -> ClaimStatus {
    if let Some(broken) = own.record.as_ref().and_then(Record::broken) {
        return ClaimStatus::Broken(broken);
    }
    if own.is_released() {
        return ClaimStatus::Absent;
    }
    let (created, lease) = (own.created, own.lease);
    match blocked_by(own, ahead, short_queue) {
        None => {
            ClaimStatus::First(Box::new(Found { created, changed: own.changed, lease, record: own.record.clone() }))
        }
        Some(blocked_by) => ClaimStatus::Behind { created, lease, blocked_by },
    }
}

/// Whether it is admitted behind these, marked or not.
pub(super) fn is_admitted(own: &Contender, ahead: &[Contender]) -> bool {
    blocked_by(own, ahead, false).is_none()
}

/// What blocks the claim, if anything does.
fn blocked_by(own: &Contender, ahead: &[Contender], short_queue: bool) -> Option<BlockedBy> {
    let last = ahead.last()?;
    if own.weight() == MAX {
        let short_queue = short_queue && ahead.len() <= SHORT_QUEUE;
        let are_others = ahead.iter().all(|contender| contender.lease != own.lease);
        let ahead = (are_others && (short_queue || ahead.len() == 1)).then(|| Predecessors::of(ahead));
        let what = if short_queue { line_of(&own.key) } else { one(&last.key) };
        let last = Some((last.key.clone(), last.created));
        return Some(BlockedBy { what, only_its_end: true, ahead, last });
    }
    let mut line = ahead.to_vec();
    line.push(own.clone());
    if admissions(&line).all(|(_, admitted)| admitted) {
        return None;
    }
    // A reader is let in when the last writer before it is gone, or has become a reader.
    let writer = ahead.iter().rfind(|contender| contender.weight() == MAX);
    let what = match writer {
        Some(writer) if own.capacity() == MAX => one(&writer.key),
        _ if admissions(ahead).all(|(_, admitted)| admitted) => line_of(&own.key),
        // Who waits before it is let in first, and says so by changing its key.
        _ => one(&last.key),
    };
    Some(BlockedBy { what, only_its_end: false, ahead: None, last: None })
}

/// This key alone.
pub(super) fn one(key: &Bytes) -> Span {
    Span { from: key.clone(), to: Bytes::new() }
}

/// The whole line in which a key is.
fn line_of(key: &Bytes) -> Span {
    let end = key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut behind = key[..end].to_vec();
    if let Some(last) = behind.last_mut() {
        *last += 1;
    }
    Span { from: key.slice(..end), to: behind.into() }
}
