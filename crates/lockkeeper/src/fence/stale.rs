//! The refusal.

use std::fmt;

use crate::Sequencer;
use crate::marks::StaleReason;

/// A refused access: its sequencer, the reason, and what its sender can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    refused: Sequencer,
    reason: StaleReason,
}

impl Stale {
    pub(super) fn new(refused: Sequencer, reason: StaleReason) -> Self {
        Self { refused, reason }
    }

    /// The refused sequencer.
    pub fn refused(&self) -> &Sequencer {
        &self.refused
    }

    /// The reason of the refusal.
    pub fn reason(&self) -> &StaleReason {
        &self.reason
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.refused, self.reason)
    }
}

impl std::error::Error for Stale {}
