//! Which nodes answer late. No attempt waits for a late node while a majority of the others has
//! answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::time::{Clock, Instant};

/// A node that takes longer to answer is late. It is on time again with its next early answer.
pub(crate) const LATE: Duration = Duration::from_millis(20);

/// Whether a node is late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness(Arc<AtomicBool>);

/// A request on its way to a node and back.
#[derive(Debug)]
pub(crate) struct UnderWay {
    node: Lateness,
    clock: Clock,
    /// `None`: the node has answered.
    sent: Option<Instant>,
}

impl Lateness {
    pub(crate) fn is_late(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An attempt has waited for the node for too long.
    pub(crate) fn is_missed(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// A request goes to the node now.
    pub(crate) fn sent(&self, clock: &Clock) -> UnderWay {
        UnderWay { node: self.clone(), clock: clock.clone(), sent: Some(clock.now()) }
    }
}

impl UnderWay {
    /// The node has answered.
    pub(crate) fn answered(mut self) {
        let took = self.sent.take().map(|sent| self.clock.now().saturating_since(sent));
        self.node.0.store(took >= Some(LATE), Ordering::Relaxed);
    }
}

impl Drop for UnderWay {
    /// The answer is not awaited any more. It is late, or may still have been on time.
    fn drop(&mut self) {
        let since = self.sent.map(|sent| self.clock.now().saturating_since(sent));
        if since >= Some(LATE) {
            self.node.is_missed();
        }
    }
}
