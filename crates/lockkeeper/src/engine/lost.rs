//! The future that completes with the loss of a lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Hold;
use crate::{Error, LockName, LostReason};

/// A future that completes when a lock, or the first of several locks, is lost; from
/// [`Guard::lost`](crate::Guard::lost) and [`MultiGuard::lost`](crate::MultiGuard::lost).
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
        self.waiting
            .get_or_insert_with(|| Box::pin(first_loss(self.holds.clone())))
            .as_mut()
            .poll(cx)
    }

    /// The loss as an error that names the lock.
    pub(crate) fn poll_error(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        self.poll_loss(cx).map(|(name, reason)| Error::lost(name, reason))
    }
}

/// The lost lock, and the reason.
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
