//! The refusal.

use std::fmt;

use crate::{FencingToken, LockName, Sequencer};

/// An access that was refused: which one, why, and what its sender can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    refused: Sequencer,
    reason: StaleReason,
}

/// Why an access was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleReason {
    /// A newer access that conflicts with it has passed.
    Older {
        /// The newest token that conflicts.
        seen: FencingToken,
    },
    /// Another lock protects the resource.
    OtherLock {
        /// The lock that does.
        expected: LockName,
    },
    /// It is of permits. Permit 1 of 2 may live on while number 2 comes and goes and number 3 follows, so no order of
    /// tokens tells a live holder from a dead one; the store has to be asked.
    NoGate,
}

impl Stale {
    pub(super) fn new(refused: Sequencer, reason: StaleReason) -> Self {
        Self { refused, reason }
    }

    /// What was refused.
    pub fn refused(&self) -> &Sequencer {
        &self.refused
    }

    /// Why.
    pub fn reason(&self) -> &StaleReason {
        &self.reason
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.refused, self.reason)
    }
}

impl fmt::Display for StaleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older { seen } => write!(
                f,
                "is stale: the resource has seen token {seen}. \
                 Try: stop working on what the lock protects, and acquire it again"
            ),
            Self::OtherLock { expected } => write!(
                f,
                "is of another lock: this resource is protected by {expected:?}. Try: send the sequencer of that lock"
            ),
            Self::NoGate => f.write_str(
                "cannot be checked by a gate: permits are held side by side, so an older one may be alive. \
                 Try: ask the store (check_sequencer), or one mutex for each unit",
            ),
        }
    }
}

impl std::error::Error for Stale {}

impl std::error::Error for StaleReason {}
