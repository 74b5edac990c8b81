//! The guard.
use std::fmt;

/// Why a lock was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease ran out before a renewal was acknowledged.
    Expired,
    /// Somebody broke it.
    Broken {
        /// Who did it.
        by: String,
        /// Why.
        reason: String,
    },
    /// It was held for as long as it may.
    MaxHold,
    /// The store has forgotten the session.
    SessionExpired,
    /// The keeper was shut down while it was held.
    Shutdown,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its lease ran out"),
            Self::Broken { by, reason } => write!(f, "{by} broke it: {reason}"),
            Self::MaxHold => f.write_str("it was held for as long as it may"),
            Self::SessionExpired => f.write_str("the store has forgotten the session"),
            Self::Shutdown => f.write_str("the keeper was shut down"),
        }
    }
}
