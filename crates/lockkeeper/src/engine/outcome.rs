//! What becomes of one claim of an attempt.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use crate::Error;
use crate::store::Revision;

/// A claim in progress.
pub(super) struct PendingClaim {
    pub(super) hold: Arc<Hold>,
    /// Whether the store may know it.
    pub(super) sent: bool,
    pub(super) tries: u32,
}

/// What became of one id.
pub(super) enum Outcome {
    Granted,
    /// Others hold the lock, or stand in line for it, and it is not in that line.
    Busy(BusyLine),
    /// The id is retired; the attempt goes on with another.
    Retired,
    GivenUp,
    Failed(Error),
}

/// The line that a claim was turned away from.
pub(super) struct BusyLine {
    pub(super) seen: Revision,
    /// When a holder's life ends if nobody renews it.
    pub(super) retry_after: Option<Duration>,
}
