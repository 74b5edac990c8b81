//! A line as it is seen from outside.

use std::time::Duration;

use super::{Broken, ClaimKey, IdHash, Meta, Revision};
use crate::LockName;

/// What somebody waits for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Interest<'a> {
    /// A queued claim of the caller.
    Claim(&'a ClaimKey),
    /// Any change of a line.
    Name(&'a LockName),
}

/// The live claims of one name, in order.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Changes whenever the line does.
    pub revision: Revision,
    /// The highest raw token given out, where the store remembers it.
    pub last_token: Option<u64>,
    /// The claims, first in line first.
    pub entries: Vec<Entry>,
}

impl Line {
    /// The capacity that counts now: the smallest one that a holder knows. Where nobody holds yet it is that of the first
    /// in line; `None` when nobody stands there.
    pub fn capacity(&self) -> Option<u32> {
        let held = self.entries.iter().take_while(|entry| entry.granted).map(|entry| entry.capacity).min();
        held.or_else(|| self.entries.first().map(|entry| entry.capacity))
    }
}

/// One live claim.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The hash of its id. The id itself authorises a release and is never shown.
    pub id: IdHash,
    /// What it takes.
    pub weight: u32,
    /// What there is, as this claim knows.
    pub capacity: u32,
    /// Whether it holds the lock.
    pub granted: bool,
    /// Whether only its minimum hold keeps it: its holder has released it, or its life is over. Then `expires_in` is the
    /// rest of the minimum hold.
    pub kept: bool,
    /// Its raw token: of a holder always, of a waiter where its place in line is the token.
    pub token: Option<u64>,
    /// What it shows to people.
    pub meta: Meta,
    /// How long it has been held, or has been waiting; `None` where the store does not know.
    pub age: Option<Duration>,
    /// How long it lives if nobody renews it.
    pub expires_in: Option<Duration>,
    /// Who marked it as broken, and why.
    pub broken: Option<Broken>,
}
