//! A key of a line, as it was read, and the order of a line.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::keys::Lines;
use super::leaver::{Leaver, LeaverState};
use super::record::{Keep, Record};
use super::span::{Incarnation, Span};
use crate::store::admit::{Admission, Demand};
use crate::store::{ClaimId, Entry, IdHash, MAX, Meta, Revision};
use crate::wire::messages::KeyValue;

/// A bit in the mark of a line that has claims. No revision is so high.
const STANDING: u64 = 1 << 63;

/// A key of a line: a claim of lockkeeper, or a key of another program.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) key: Bytes,
    /// The revision that created it: its place in line, and its token. etcd keeps it while the key
    /// is changed.
    pub(crate) created: i64,
    /// The revision that changed it last.
    pub(crate) changed: i64,
    pub(crate) lease: i64,
    pub(crate) id: Option<ClaimId>,
    /// The record, if the key is a claim of lockkeeper.
    pub(crate) record: Option<Record>,
    /// The value of the key.
    pub(crate) value: Bytes,
}

impl Contender {
    pub(crate) fn read(kv: KeyValue) -> Self {
        let record = Record::read(&kv.value);
        Self {
            created: kv.create_revision,
            changed: kv.mod_revision,
            lease: kv.lease,
            id: record.as_ref().and_then(Record::id),
            record,
            key: kv.key,
            value: kv.value,
        }
    }

    /// The key, and the revision that created it.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { key: self.key.clone(), created: self.created }
    }

    /// Whether a request deletes this claim as it is.
    pub(crate) fn is_leaving(&self, leaving: &[Leaver]) -> bool {
        let is_this = |leaver: &Leaver| {
            leaver.key == self.key
                && match leaver.state {
                    LeaverState::Created(revision) => revision == self.created,
                    LeaverState::Changed(revision) => revision == self.changed,
                }
        };
        leaving.iter().any(is_this)
    }

    /// The contenders of a line, in order.
    pub(crate) fn all(lines: &Lines, line: &Span, kvs: Vec<KeyValue>) -> Vec<Self> {
        let contends = |kv: &KeyValue| lines.contends(line, &kv.key);
        let mut all: Vec<_> = kvs.into_iter().filter(contends).map(Self::read).collect();
        all.sort_by_key(|contender| contender.created);
        all
    }

    /// A key without a record is exclusive.
    pub(crate) fn weight(&self) -> u32 {
        self.record.as_ref().map_or(MAX, |record| record.weight)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.record.as_ref().map_or(MAX, |record| record.capacity)
    }

    pub(crate) fn meta(&self) -> Meta {
        match &self.record {
            Some(record) => record.meta(),
            None => Meta {
                owner: self.stranger(),
                value: (!self.value.is_empty()).then(|| Arc::from(&*self.value)),
                ..Meta::default()
            },
        }
    }

    /// A key without a lease was put there by hand, and stays; the key of a claim may name a lease,
    /// which is a secret.
    fn stranger(&self) -> Arc<str> {
        match self.lease {
            0 => format!("no claim, but the key {}", String::from_utf8_lossy(&self.key)).into(),
            _ => "another client of etcd".into(),
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.broken().is_some())
    }

    /// The minimum hold of the claim, if it has one.
    pub(crate) fn keep(&self) -> Option<&Keep> {
        self.record.as_ref().and_then(|record| record.keep.as_ref())
    }

    /// The record says that the holder has released the claim, and only its minimum hold is left.
    pub(crate) fn is_released(&self) -> bool {
        self.keep().is_some_and(|keep| keep.released)
    }

    /// Broken, or released.
    pub(crate) fn is_over(&self) -> bool {
        self.is_broken() || self.is_released()
    }

    /// The lease that names the session, if the claim has a minimum hold: if that lease has ended,
    /// only the minimum hold is left.
    pub(crate) fn session_to_ask(&self) -> Option<i64> {
        self.keep().filter(|keep| !keep.released && !self.is_broken())?;
        self.session_lease()
    }

    /// The first lease of the session, as the key names it.
    pub(crate) fn session_lease(&self) -> Option<i64> {
        let last = self.key.rsplit(|byte| *byte == b'/').next()?;
        let lease = std::str::from_utf8(last.split(|byte| *byte == b'-').next()?).ok()?;
        i64::from_str_radix(lease, 16).ok()
    }

    pub(crate) fn token(&self) -> u64 {
        self.created.unsigned_abs()
    }

    /// The name of the claim in listings: the hash of its id, or of its key if it has no id.
    pub(crate) fn hash(&self) -> IdHash {
        match self.id {
            Some(id) => id.hash(),
            None => {
                let mut id = [0; 16];
                id.copy_from_slice(&Sha256::digest(&self.key)[..16]);
                ClaimId::from_bytes(id).hash()
            }
        }
    }

    /// The entry of the claim in the line that the contract reports.
    pub(crate) fn entry(
        &self,
        granted: bool,
        kept: bool,
        expires_in: Option<Duration>,
        now_ms: u64,
    ) -> Entry {
        let since = |record: &Record| if granted { record.held_ms } else { record.asked_ms };
        let since = self.record.as_ref().and_then(since);
        Entry {
            id: self.hash(),
            weight: self.weight(),
            capacity: self.capacity(),
            granted,
            kept,
            token: Some(self.token()),
            meta: self.meta(),
            age: since.map(|since| Duration::from_millis(now_ms.saturating_sub(since))),
            expires_in,
            broken: self.record.as_ref().and_then(Record::broken),
        }
    }

    fn demand(&self) -> Demand {
        Demand { weight: self.weight(), capacity: self.capacity(), granted: false }
    }
}

/// Each claim of a whole line, and whether it holds the lock.
pub(crate) fn admissions(line: &[Contender]) -> impl Iterator<Item = (&Contender, bool)> {
    let mut rule = Admission::new();
    line.iter().map(move |contender| (contender, rule.admit(contender.demand())))
}

/// The claims of a line before this revision.
pub(crate) fn ahead_of(line: &[Contender], created: i64) -> &[Contender] {
    &line[..line.partition_point(|contender| contender.created < created)]
}

/// The mark of a line that was read at this revision. An empty line has no key that records earlier
/// claims. Its mark is therefore etcd's revision, which changes with every claim.
pub(crate) fn mark(line: &[Contender], revision: i64) -> Revision {
    if line.is_empty() {
        return Revision(revision.unsigned_abs());
    }
    let mut hasher = DefaultHasher::new();
    for contender in line {
        (contender.created, contender.changed).hash(&mut hasher);
    }
    Revision(hasher.finish() | STANDING)
}

/// Whether the line is unchanged since `seen`. A line that was empty then and is empty now counts
/// as unchanged, even if claims came and went in between.
pub(crate) fn is_as_it_was(line: &[Contender], seen: Revision) -> bool {
    match line.is_empty() {
        true => seen.0 & STANDING == 0,
        false => mark(line, 0) == seen,
    }
}
