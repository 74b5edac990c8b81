//! The loss of a lock: why, and the future that completes with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::Hold;
use crate::{Error, LockName};

/// Why a lock was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease expired before the store acknowledged a renewal.
    Expired,
    /// The store no longer knew the lock although the lease had not expired: the store was restarted without its data,
    /// or the lock was deleted there.
    Forgotten,
    /// An operator broke the lock. No other holder gets it before the lease expires, unless an operator also removes
    /// the claim at once.
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
    /// The store granted the lock to an attempt whose future was not polled in time, so the grant was not collected.
    Uncollected,
    /// The keeper was shut down while the lock was held.
    Shutdown,
    /// This process was forked from the holder.
    Forked,
}

impl LostReason {
    /// Whether the store may have given the lock away when this is known. A mark, and the end of `max_hold`, leave it with
    /// the holder for the rest of its lease.
    pub(crate) fn gives_away(&self) -> bool {
        !matches!(self, Self::Broken { .. } | Self::MaxHold)
    }
}

/// A future that completes when a lock is lost, or the first of several locks; from [`Guard::lost`](crate::Guard::lost)
/// and [`MultiGuard::lost`](crate::MultiGuard::lost).
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    holds: Vec<Arc<Hold>>,
    waiting: Option<Pin<Box<dyn Future<Output = Loss> + Send + Sync>>>,
}

impl Lost {
    pub(crate) fn of(holds: Vec<Arc<Hold>>) -> Self {
        Self { holds, waiting: None }
    }

    fn poll_loss(&mut self, cx: &mut Context<'_>) -> Poll<Loss> {
        self.waiting.get_or_insert_with(|| Box::pin(first_loss(self.holds.clone()))).as_mut().poll(cx)
    }

    /// The loss as an error that names the lock.
    pub(crate) fn poll_error(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        self.poll_loss(cx).map(|(name, reason)| Error::lost(name, reason))
    }
}

/// Which lock was lost, and why.
type Loss = (LockName, LostReason);

async fn first_loss(holds: Vec<Arc<Hold>>) -> Loss {
    let lost = async |hold: &Hold| (hold.key.name.clone(), hold.lost().await);
    let mut losses: Vec<_> = holds.iter().map(|hold| Box::pin(lost(hold))).collect();
    poll_fn(|cx| {
        let mut polled = losses.iter_mut().map(|loss| loss.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

impl Future for Lost {
    type Output = LostReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        self.poll_loss(cx).map(|(_, reason)| reason)
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::of(self.holds.clone())
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.holds.iter().map(|hold| &hold.key.name);
        f.debug_struct("Lost").field("names", &names.collect::<Vec<_>>()).finish_non_exhaustive()
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
