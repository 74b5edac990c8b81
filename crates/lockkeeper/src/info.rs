//! A lock as people look at it.

use std::time::Duration;

use serde::Serialize;

use crate::engine::mode;
use crate::store::{self, Broken, IdHash, Line};
use crate::{Error, FencingToken, LockName, Mode, serial};

/// Who holds a lock, and who waits for it. It can be serialized: durations in milliseconds, tokens and ids as text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LockInfo {
    /// The lock, as it is typed: without the keeper's prefix.
    #[serde(rename = "lock")]
    pub name: LockName,
    #[serde(rename = "full_name")]
    full: LockName,
    /// How it is used at present; `None` when nobody uses it.
    pub mode: Option<Mode>,
    /// The permits of a semaphore; `None` for a mutex or read-write lock, and when nobody uses it. Where those who use the
    /// semaphore know different numbers of permits it is the smallest number that a holder knows: so many may be held
    /// now. The numbers of those who wait do not count before they hold.
    pub capacity: Option<u32>,
    /// Those who hold it, the first in line first.
    pub holders: Vec<HolderInfo>,
    /// Those who wait, in order.
    pub waiters: Vec<WaiterInfo>,
    /// The highest token that was given out, where the store remembers it.
    pub last_token: Option<FencingToken>,
    /// Why nobody can tell more of it, where [`Admin::list`](crate::Admin::list) met something in the lock's place in
    /// the store that is no lock, or one of a later version.
    pub problem: Option<Error>,
}

/// One holder.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HolderInfo {
    /// A hash of the claim's id, for naming it, as in [`Target::IdHash`](crate::Target::IdHash).
    #[serde(serialize_with = "serial::text")]
    pub id: IdHash,
    /// Who it is, as it says itself.
    pub owner: String,
    /// Why it holds the lock.
    pub reason: Option<String>,
    /// How many permits it has; `u32::MAX` for an exclusive holder, 1 for a reader.
    #[serde(rename = "permits", skip_serializing_if = "is_all")]
    pub weight: u32,
    /// How many permits there are, as this holder knows; `None` for a mutex or read-write lock.
    pub capacity: Option<u32>,
    /// Its token, unless it is out of range of what this version knows.
    pub token: Option<FencingToken>,
    /// Since when it has held the lock, where the store knows.
    #[serde(rename = "held_ms", serialize_with = "serial::maybe_millis")]
    pub held: Option<Duration>,
    /// When its claim ends if it is not renewed.
    #[serde(rename = "expires_in_ms", serialize_with = "serial::maybe_millis")]
    pub expires_in: Option<Duration>,
    /// Whether only its minimum hold keeps it: the holder has released it, or is gone. `expires_in` is the rest then.
    pub kept: bool,
    /// Who broke it, and why, if somebody did: it holds the lock until its claim ends, and cannot renew it.
    pub broken: Option<Broken>,
}

/// One waiter.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// A hash of the claim's id, for naming it, as in [`Target::IdHash`](crate::Target::IdHash).
    #[serde(serialize_with = "serial::text")]
    pub id: IdHash,
    /// Who it is, as it says itself.
    pub owner: String,
    /// Why it wants the lock.
    pub reason: Option<String>,
    /// How many permits it wants; `u32::MAX` for an exclusive waiter, 1 for a reader.
    #[serde(rename = "permits", skip_serializing_if = "is_all")]
    pub weight: u32,
    /// How many permits there are, as this waiter knows; `None` for a mutex or read-write lock.
    pub capacity: Option<u32>,
    /// How long it has waited, where the store knows.
    #[serde(rename = "waited_ms", serialize_with = "serial::maybe_millis")]
    pub waited: Option<Duration>,
    /// When its claim ends if it is not renewed.
    #[serde(rename = "expires_in_ms", serialize_with = "serial::maybe_millis")]
    pub expires_in: Option<Duration>,
}

impl LockInfo {
    /// Whether somebody holds it.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The lock as the store knows it, with the keeper's prefix.
    pub fn full_name(&self) -> &LockName {
        &self.full
    }

    pub(crate) fn new(full: LockName, name: LockName, line: Line) -> Self {
        let epoch = line.entries.iter().map(|e| e.meta.epoch).max().unwrap_or(0);
        let mode = line.entries.first().map(|first| mode(first.weight, line.capacity().unwrap_or(store::MAX)));
        let capacity = line.capacity().and_then(permits);
        let (holders, waiters): (Vec<_>, Vec<_>) = line.entries.into_iter().partition(|e| e.granted);
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

    /// One that cannot be read.
    pub(crate) fn unreadable(full: LockName, name: LockName, problem: Error) -> Self {
        let (holders, waiters) = (Vec::new(), Vec::new());
        Self { name, full, mode: None, capacity: None, holders, waiters, last_token: None, problem: Some(problem) }
    }
}

/// The capacity of a semaphore.
fn permits(capacity: u32) -> Option<u32> {
    Some(capacity).filter(|capacity| *capacity != store::MAX)
}

/// An exclusive claim has no number of permits to show.
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
