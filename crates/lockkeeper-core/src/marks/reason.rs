//! Why an access is refused.

use std::fmt;

use crate::{FencingToken, LockName};

/// Why an access was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleReason {
    /// A newer, conflicting access has passed.
    Older {
        /// The newest conflicting token.
        seen: FencingToken,
    },
    /// Another lock protects the resource.
    OtherLock {
        /// The lock that protects the resource.
        expected: LockName,
    },
    /// The sequencer is for permits. The holder of one permit may live on while another permit
    /// changes hands many times, so the order of the tokens does not distinguish a live holder from
    /// a former one. Only the store knows.
    NoGate,
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
                "belongs to another lock: this resource is protected by {expected:?}. Try: send the sequencer of that lock"
            ),
            Self::NoGate => f.write_str(
                "cannot be checked by a gate: permits are held side by side, so an older permit may still be held. \
                 Try: ask the store (check_sequencer), or one mutex for each unit",
            ),
        }
    }
}

impl std::error::Error for StaleReason {}
