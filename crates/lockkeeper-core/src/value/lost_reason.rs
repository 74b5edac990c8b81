//! Why a lock was lost.

use std::fmt;

/// Why a lock was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease expired before the store acknowledged a renewal.
    Expired,
    /// The store no longer knew the lock although the lease had not expired: the store was
    /// restarted without its data, or the lock was deleted there. A guard from a handle does not
    /// know when its lock was last renewed; there, the lease may have expired.
    Forgotten,
    /// An operator broke the lock. No other holder gets it before the lease expires, unless an
    /// operator also removes the claim at once.
    Broken {
        /// The operator: the owner of the keeper that broke the lock.
        by: String,
        /// Why.
        reason: String,
    },
    /// An operator removed the claim at once. Another holder may have the lock.
    Removed {
        /// The operator: the owner of the keeper that broke the lock.
        by: String,
        /// Why.
        reason: String,
    },
    /// The longest hold (`max_hold`) is over.
    MaxHold,
    /// The store has forgotten the session.
    SessionExpired,
    /// The store granted the lock to an attempt whose future was not polled in time, so the grant
    /// was not collected.
    Uncollected,
    /// The keeper was shut down while the lock was held.
    Shutdown,
    /// This process was forked from the holder.
    Forked,
}

impl LostReason {
    /// Returns whether the store may have granted the lock to another claim by now. A break mark,
    /// and the end of `max_hold`, leave the lock with the holder for the rest of its lease.
    #[doc(hidden)]
    pub fn gives_away(&self) -> bool {
        !matches!(self, Self::Broken { .. } | Self::MaxHold)
    }

    /// The reason in one word, as in JSON and the metrics.
    #[doc(hidden)]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Forgotten => "forgotten",
            Self::Broken { .. } => "broken",
            Self::Removed { .. } => "removed",
            Self::MaxHold => "max_hold",
            Self::SessionExpired => "session_expired",
            Self::Uncollected => "uncollected",
            Self::Shutdown => "shutdown",
            Self::Forked => "forked",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its lease expired"),
            Self::Forgotten => f.write_str(
                "the store no longer knows this lock: it was restarted without its data, or the lock was deleted",
            ),
            Self::Broken { by, reason } => write!(f, "{by} broke it ({reason})"),
            Self::Removed { by, reason } => write!(f, "{by} removed it at once ({reason})"),
            Self::MaxHold => f.write_str("the longest hold (max_hold) is over"),
            Self::SessionExpired => f.write_str("the store has forgotten the session"),
            Self::Uncollected => f.write_str("the attempt did not collect the grant in time"),
            Self::Shutdown => f.write_str("the keeper was shut down"),
            Self::Forked => f.write_str("this process was forked from its holder"),
        }
    }
}
