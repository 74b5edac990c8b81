//! What an attempt asks for.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use crate::store::{MAX, SessionSpec};
use crate::{LockName, Mode, Owner};

/// A claim that is wanted, and how.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: LockName,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) spec: SessionSpec,
    /// Whether it waits when the lock is busy.
    pub(crate) queue: bool,
    /// Whether it waits without a place in line.
    pub(crate) unfair: bool,
    /// A session of its own that is not renewed after the grant.
    pub(crate) fixed: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How long the store keeps it from others once it is handed out, released or not.
    pub(crate) min_hold: Duration,
    pub(crate) owner: Option<Owner>,
    pub(crate) reason: Option<Arc<str>>,
    /// Whether what the owner holds already is held once more.
    pub(crate) reenters: bool,
    /// What a candidate shows.
    pub(crate) value: Option<Arc<[u8]>>,
    /// The caller's own claim, whose place it is to take.
    pub(crate) replaces: Option<Arc<Hold>>,
}

impl Request {
    /// A request that does not wait, with nothing set but what it is for.
    pub(crate) fn new(name: LockName, weight: u32, capacity: u32, spec: SessionSpec) -> Self {
        Self {
            name,
            weight,
            capacity,
            spec,
            queue: false,
            unfair: false,
            fixed: false,
            max_hold: None,
            min_hold: Duration::ZERO,
            owner: None,
            reason: None,
            reenters: false,
            value: None,
            replaces: None,
        }
    }

    /// How the lock is held once this is granted.
    pub(crate) fn mode(&self) -> Mode {
        mode(self.weight, self.capacity)
    }

    pub(super) fn is_exclusive(&self) -> bool {
        (self.weight, self.capacity) == (MAX, MAX)
    }
}

/// How a claim of this weight holds a lock of this capacity.
pub(crate) fn mode(weight: u32, capacity: u32) -> Mode {
    match (weight, capacity) {
        (MAX, _) => Mode::Exclusive,
        (_, MAX) => Mode::Shared,
        (permits, _) => Mode::Permits(permits),
    }
}
