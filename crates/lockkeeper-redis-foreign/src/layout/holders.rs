//! The claims of a lock, as a script reports them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::owner::shown;
use super::{Layout, claim_id};
use crate::store::{Broken, Entry, Line, MAX, Meta, Revision, Target};

/// The weight that a script gives a waiter.
const WAITER: u32 = 2;

/// The claims that hold a lock, and then those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    pub(super) last_token: u64,
    pub(crate) all: Vec<Holder>,
}

/// A claim that holds a lock, or waits for it.
#[derive(Debug)]
pub(crate) struct Holder {
    /// As the key of the lock has it.
    pub(crate) owner: Vec<u8>,
    /// How long it lives; `None` for ever.
    pub(super) left: Option<Duration>,
    pub(super) weight: u32,
    /// How many permits the semaphore has; 0 for other locks.
    pub(super) number: u32,
    pub(super) age: Duration,
    /// What a client of lockkeeper has written beside the key.
    pub(super) record: Option<Record>,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) token: u64,
    pub(super) weight: u32,
    pub(super) capacity: u32,
    pub(super) change: u64,
    pub(super) meta: Meta,
    pub(super) broken: Option<Broken>,
    pub(super) asked: bool,
}

impl Holders {
    /// Changes with every change of the line.
    pub(crate) fn revision(&self) -> Revision {
        let mut hash = DefaultHasher::new();
        let mut all: Vec<_> =
            self.all.iter().map(|one| (&one.owner, one.weight, one.state())).collect();
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
        entries.sort_by_key(|entry| (!entry.granted, entry.token));
        Line {
            revision: self.revision(),
            last_token: (self.last_token > 0).then_some(self.last_token),
            entries,
        }
    }

    /// The claims that hold the lock.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &Holder> {
        self.all.iter().filter(|one| one.weight != WAITER)
    }

    /// The end of the last holder. A lock without an end ends by a message.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.granted().filter_map(|holder| holder.left).min()
    }
}

impl Holder {
    fn state(&self) -> (u64, u64, bool, bool) {
        self.record.as_ref().map_or((0, 0, false, false), |record| {
            (record.token, record.change, record.broken.is_some(), record.asked)
        })
    }

    pub(super) fn entry(&self, layout: Layout) -> Entry {
        let (own, granted) = (self.record.as_ref(), self.weight != WAITER);
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
            granted,
            kept: false,
            token: own.filter(|_| granted).map(|record| record.token),
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
