//! A line, as an observer sees it.

use std::time::Duration;

use super::{Broken, ClaimKey, IdHash, Meta, Revision};
use crate::LockName;

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
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
    /// The highest raw token that was given out, if the store remembers it.
    pub last_token: Option<u64>,
    /// The claims, first in line first.
    pub entries: Vec<Entry>,
}

impl Line {
    /// The capacity that counts now: the smallest one that a holder names. If no claim holds the
    /// lock yet, it is the capacity of the first claim. `None` if the line is empty.
    pub fn capacity(&self) -> Option<u32> {
        let held =
            self.entries.iter().take_while(|entry| entry.granted).map(|entry| entry.capacity).min();
        held.or_else(|| self.entries.first().map(|entry| entry.capacity))
    }
}

/// One live claim.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The hash of the claim's id. The id itself authorises a release and is never shown.
    pub id: IdHash,
    /// The weight of the claim.
    pub weight: u32,
    /// The capacity of the lock, as this claim names it.
    pub capacity: u32,
    /// Whether the claim holds the lock.
    pub granted: bool,
    /// Whether only the minimum hold keeps the claim: its holder has released it, or the claim has
    /// expired. Then `expires_in` is the rest of the minimum hold.
    pub kept: bool,
    /// The raw token of the claim. A holder always has one; a waiter has one if its place in the
    /// line is the token.
    pub token: Option<u64>,
    /// What the claim shows to people.
    pub meta: Meta,
    /// How long the claim has been held, or has been waiting. `None` if the store does not know.
    pub age: Option<Duration>,
    /// How long the claim lives if it is not renewed.
    pub expires_in: Option<Duration>,
    /// The break of the claim, if it was marked as broken.
    pub broken: Option<Broken>,
}
