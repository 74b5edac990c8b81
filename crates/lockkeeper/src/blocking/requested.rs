//! Waiting for a request to release a lock, without async.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lost::Ended;
use super::park;
use crate::engine::Hold;
use crate::{ReleaseRequest, Result};

/// Waits until an operator asks the holder of a lock to release it; from
/// [`Guard::release_requested`](super::Guard::release_requested) and similar methods. The async
/// [`Guard::release_requested`](crate::Guard::release_requested) describes what a request is and when it arrives.
#[derive(Clone)]
pub struct ReleaseRequested {
    holds: Vec<Arc<Hold>>,
    end: Ended,
}

impl ReleaseRequested {
    pub(super) fn new(holds: Vec<Arc<Hold>>, end: Ended) -> Self {
        Self { holds, end }
    }

    /// Waits for a request. The result is `None` when the guard is released or dropped first.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn wait(&self) -> Result<Option<ReleaseRequest>> {
        park::wait(self.clone().requested_or_ended())
    }

    /// Waits for a request for at most `d`. The result is `None` when the time is over, or when the guard is released
    /// or dropped first. With a `d` of zero the call only looks, for work that asks now and then.
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
