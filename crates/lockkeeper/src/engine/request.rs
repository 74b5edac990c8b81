//! The settings of an attempt.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use crate::store::{MAX, SessionSpec};
use crate::{LockName, Mode, Owner};

/// A wanted claim, and the conditions.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: LockName,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) spec: SessionSpec,
    /// Whether the attempt waits when the lock is busy.
    pub(crate) queue: bool,
    /// Whether the attempt waits without a place in line.
    pub(crate) unfair: bool,
    /// Whether the claim has a session of its own that is not renewed after the grant.
    pub(crate) fixed: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How long the store keeps the lock from others after the attempt, even after a release.
    pub(crate) min_hold: Duration,
    pub(crate) owner: Option<Owner>,
    pub(crate) reason: Option<Arc<str>>,
    /// Whether the attempt may share a claim that its owner already holds.
    pub(crate) reenters: bool,
    /// The value of a candidate.
    pub(crate) value: Option<Arc<[u8]>>,
    /// The caller's own claim, which the new claim replaces.
    pub(crate) replaces: Option<Arc<Hold>>,
}

impl Request {
    /// A request that does not wait, with default settings otherwise.
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

    /// The mode of the lock after the grant.
    pub(crate) fn mode(&self) -> Mode {
        mode(self.weight, self.capacity)
    }

    pub(super) fn is_exclusive(&self) -> bool {
        (self.weight, self.capacity) == (MAX, MAX)
    }
}

/// The mode in which a claim of this weight holds a lock of this capacity.
pub(crate) fn mode(weight: u32, capacity: u32) -> Mode {
    match (weight, capacity) {
        (MAX, _) => Mode::Exclusive,
        (_, MAX) => Mode::Shared,
        (permits, _) => Mode::Permits(permits),
    }
}
