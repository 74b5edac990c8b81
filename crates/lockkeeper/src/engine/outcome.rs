//! The outcome of one claim of an attempt.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use crate::Error;
use crate::store::Revision;

/// A claim in progress.
pub(super) struct PendingClaim {
    pub(super) hold: Arc<Hold>,
    /// Whether the store may know the claim.
    pub(super) sent: bool,
    pub(super) tries: u32,
}

/// The outcome of one id.
pub(super) enum Outcome {
    Granted,
    /// Others hold the lock, or stand in line for it, and the line does not have this claim.
    Busy(BusyLine),
    /// The id is retired; the attempt goes on with another id.
    Retired,
    GivenUp,
    Failed(Error),
}

/// The line that a claim was turned away from.
pub(super) struct BusyLine {
    pub(super) seen: Revision,
    /// When the first holder expires without a renewal.
    pub(super) retry_after: Option<Duration>,
}
