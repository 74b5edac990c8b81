//! Which nodes answer late. No attempt waits for a late node while a majority of the others has
//! answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::time::{Clock, Instant};

/// A node that answers within this time is not late.
const SOON: Duration = Duration::from_millis(20);

/// A node is late that takes so many times as long as a majority.
const TIMES: u32 = 2;

/// How long a node has taken to answer, or longer if it has not answered since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency(Arc<AtomicU64>);

/// A request on its way to a node and back.
#[derive(Debug)]
pub(crate) struct UnderWay {
    node: Latency,
    clock: Clock,
    /// `None`: the node has answered.
    sent: Option<Instant>,
}

impl Latency {
    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// A caller has waited for the node for so long.
    pub(crate) fn is_at_least(&self, waited: Duration) {
        self.0.fetch_max(micros(waited), Ordering::Relaxed);
    }

    /// A request goes to the node now.
    pub(crate) fn sent(&self, clock: &Clock) -> UnderWay {
        UnderWay { node: self.clone(), clock: clock.clone(), sent: Some(clock.now()) }
    }
}

impl UnderWay {
    /// The node has answered.
    pub(crate) fn answered(mut self) {
        if let Some(sent) = self.sent.take() {
            let took = self.clock.now().saturating_since(sent);
            self.node.0.store(micros(took), Ordering::Relaxed);
        }
    }
}

impl Drop for UnderWay {
    /// The answer is not awaited any more.
    fn drop(&mut self) {
        if let Some(sent) = self.sent {
            self.node.is_at_least(self.clock.now().saturating_since(sent));
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A node that takes this time or longer is late, where all nodes have these latencies. Servers
/// that are all far away are not late.
pub(crate) fn limit(latencies: impl Iterator<Item = Duration>, quorum: usize) -> Duration {
    let mut all: Vec<_> = latencies.collect();
    all.sort_unstable();
    let of_majority = all.get(quorum - 1).copied().unwrap_or_default();
    SOON.max(of_majority.saturating_mul(TIMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(millis: [u64; 3]) -> Duration {
        limit(millis.into_iter().map(Duration::from_millis), 2)
    }

    #[test]
    fn a_node_is_late_beside_the_others_and_not_because_all_are_far_away() {
        assert_eq!(limit_of([0, 1, 100]), SOON);
        assert_eq!(limit_of([25, 30, 28]), Duration::from_millis(56));
        assert_eq!(limit_of([5000, 30, 5000]), Duration::from_secs(10), "no majority is on time");
    }

    #[test]
    fn a_node_without_an_answer_has_at_least_the_latency_of_the_wait() {
        let (latency, clock) = (Latency::default(), Clock::boot());
        latency.is_at_least(SOON);
        latency.is_at_least(Duration::from_millis(1));
        assert_eq!(latency.get(), SOON);
        latency.sent(&clock).answered();
        assert!(latency.get() < SOON, "{latency:?}");
    }
}
