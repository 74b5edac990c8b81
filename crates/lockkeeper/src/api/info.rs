//! A lock with its holders and waiters, for users.

use std::time::Duration;

use serde::Serialize;

use crate::engine::mode;
use crate::store::{self, Broken, IdHash, Line};
use crate::{Error, FencingToken, LockName, Mode, serial};

/// The holders and the waiters of a lock. The serialized form has durations in milliseconds, and
/// tokens and ids as text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LockInfo {
    /// The name of the lock as it was typed, without the keeper's prefix.
    #[serde(rename = "lock")]
    pub name: LockName,
    #[serde(rename = "full_name")]
    full: LockName,
    /// The mode of the first claim in line; `None` when the lock has no claims.
    pub mode: Option<Mode>,
    /// The number of permits of a semaphore; `None` for a mutex or read-write lock, and when the
    /// lock has no claims. If the claims name different numbers, this is the smallest number of a
    /// holder: the number of permits that may be held now. The number of a waiter counts from its
    /// grant on.
    pub capacity: Option<u32>,
    /// The holders, the first in line first.
    pub holders: Vec<HolderInfo>,
    /// The waiters, in the order of the queue.
    pub waiters: Vec<WaiterInfo>,
    /// The highest token that the store has given, if the store remembers it.
    pub last_token: Option<FencingToken>,
    /// Why the other fields are empty: [`Admin::list`](crate::Admin::list) found an entry in the
    /// place of the lock that is no lock, or is of a later version.
    pub problem: Option<Error>,
}

/// One holder.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HolderInfo {
    /// A hash of the claim's id. It names the claim, as in
    /// [`Target::IdHash`](crate::Target::IdHash).
    #[serde(serialize_with = "serial::text")]
    pub id: IdHash,
    /// The owner that it names itself.
    pub owner: String,
    /// The reason of its attempt.
    pub reason: Option<String>,
    /// The number of permits that it has; `u32::MAX` for an exclusive holder, 1 for a reader.
    #[serde(rename = "permits", skip_serializing_if = "is_all")]
    pub weight: u32,
    /// The number of permits of the semaphore that this holder names; `None` for a mutex or
    /// read-write lock.
    pub capacity: Option<u32>,
    /// Its token, unless the number is out of the range that this version knows.
    pub token: Option<FencingToken>,
    /// How long it has held the lock, if the store knows.
    #[serde(rename = "held_ms", serialize_with = "serial::maybe_millis")]
    pub held: Option<Duration>,
    /// How long its claim lives without a renewal.
    #[serde(rename = "expires_in_ms", serialize_with = "serial::maybe_millis")]
    pub expires_in: Option<Duration>,
    /// Whether only the minimum hold keeps the lock: the holder has released the lock, or is gone.
    /// `expires_in` is then the rest of the minimum hold.
    pub kept: bool,
    /// The operator who broke the lock and the reason, if the lock was broken. The holder keeps the
    /// lock until its claim ends, and cannot renew it.
    pub broken: Option<Broken>,
}

/// One waiter.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// A hash of the claim's id. It names the claim, as in
    /// [`Target::IdHash`](crate::Target::IdHash).
    #[serde(serialize_with = "serial::text")]
    pub id: IdHash,
    /// The owner that it names itself.
    pub owner: String,
    /// The reason of its attempt.
    pub reason: Option<String>,
    /// The number of permits that it waits for; `u32::MAX` for an exclusive waiter, 1 for a reader.
    #[serde(rename = "permits", skip_serializing_if = "is_all")]
    pub weight: u32,
    /// The number of permits of the semaphore that this waiter names; `None` for a mutex or
    /// read-write lock.
    pub capacity: Option<u32>,
    /// How long it has waited, if the store knows.
    #[serde(rename = "waited_ms", serialize_with = "serial::maybe_millis")]
    pub waited: Option<Duration>,
    /// How long its claim lives without a renewal.
    #[serde(rename = "expires_in_ms", serialize_with = "serial::maybe_millis")]
    pub expires_in: Option<Duration>,
}

impl LockInfo {
    /// Whether the lock has a holder.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The name of the lock in the store, with the keeper's prefix.
    pub fn full_name(&self) -> &LockName {
        &self.full
    }

    pub(crate) fn new(full: LockName, name: LockName, line: Line) -> Self {
        let epoch = line.entries.iter().map(|e| e.meta.epoch).max().unwrap_or(0);
        let mode = line
            .entries
            .first()
            .map(|first| mode(first.weight, line.capacity().unwrap_or(store::MAX)));
        let capacity = line.capacity().and_then(permits);
        let (holders, waiters): (Vec<_>, Vec<_>) =
            line.entries.into_iter().partition(|e| e.granted);
        Self {
            name,
            full,
            mode,
            capacity,
            holders: holders.into_iter().map(holder).collect(),
            waiters: waiters.into_iter().map(waiter).collect(),
            last_token: line.last_token.and_then(|raw| FencingToken::new(epoch, raw)),
            problem: None,
        }
    }

    /// A lock that cannot be read.
    pub(crate) fn unreadable(full: LockName, name: LockName, problem: Error) -> Self {
        let (holders, waiters) = (Vec::new(), Vec::new());
        Self {
            name,
            full,
            mode: None,
            capacity: None,
            holders,
            waiters,
            last_token: None,
            problem: Some(problem),
        }
    }
}

/// The capacity of a semaphore; `None` for another kind of lock.
fn permits(capacity: u32) -> Option<u32> {
    Some(capacity).filter(|capacity| *capacity != store::MAX)
}

/// Whether a claim is exclusive: it then has no number of permits to show.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_all(weight: &u32) -> bool {
    *weight == store::MAX
}

fn holder(entry: store::Entry) -> HolderInfo {
    HolderInfo {
        id: entry.id,
        owner: entry.meta.owner.to_string(),
        reason: entry.meta.reason.as_deref().map(str::to_owned),
        weight: entry.weight,
        capacity: permits(entry.capacity),
        token: entry.token.and_then(|raw| FencingToken::new(entry.meta.epoch, raw)),
        held: entry.age,
        expires_in: entry.expires_in,
        kept: entry.kept,
        broken: entry.broken,
    }
}

fn waiter(entry: store::Entry) -> WaiterInfo {
    WaiterInfo {
        id: entry.id,
        owner: entry.meta.owner.to_string(),
        reason: entry.meta.reason.as_deref().map(str::to_owned),
        weight: entry.weight,
        capacity: permits(entry.capacity),
        waited: entry.age,
        expires_in: entry.expires_in,
    }
}
