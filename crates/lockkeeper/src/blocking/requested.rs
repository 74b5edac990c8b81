//! Waiting on a thread until somebody asks for a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lost::Ended;
use super::park;
use crate::engine::Hold;
use crate::{ReleaseRequest, Result};

/// Waits until somebody asks the holder of a lock to let go; from
/// [`Guard::release_requested`](super::Guard::release_requested) and its like. What a request is, and when it is heard,
/// stands at the async [`Guard::release_requested`](crate::Guard::release_requested).
#[derive(Clone)]
pub struct ReleaseRequested {
    holds: Vec<Arc<Hold>>,
    end: Ended,
}

impl ReleaseRequested {
    pub(super) fn new(holds: Vec<Arc<Hold>>, end: Ended) -> Self {
        Self { holds, end }
    }

    /// Waits for a request; `None` when the guard is released or dropped before.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn wait(&self) -> Result<Option<ReleaseRequest>> {
        park::wait(self.clone().requested_or_ended())
    }

    /// Waits for a request for at most `d`; `None` when there was none by then, or the guard is released or dropped
    /// before. With a `d` of zero it looks, for a piece of work that asks now and then.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn wait_timeout(&self, d: Duration) -> Result<Option<ReleaseRequest>> {
        park::wait_for(d, self.clone().requested_or_ended()).map(Option::flatten)
    }

    async fn requested_or_ended(mut self) -> Option<ReleaseRequest> {
        let requested = crate::ReleaseRequested::of(self.holds);
        tokio::select! {
            biased;
            request = requested => Some(request),
            _ = self.end.changed() => None,
        }
    }
}

impl fmt::Debug for ReleaseRequested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.holds.iter().map(|hold| &hold.key.name);
        f.debug_struct("ReleaseRequested").field("names", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
