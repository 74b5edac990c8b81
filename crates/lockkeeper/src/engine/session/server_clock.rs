//! The clock of a server, according to the answers to renewals.

use std::sync::Mutex;
use std::time::Duration;

use super::super::lock::lock;
use crate::time::Instant;

/// The time in the last answer, and when its request was sent.
#[derive(Debug, Default)]
pub(in crate::engine) struct ServerClock(Mutex<Option<(Duration, Instant)>>);

impl ServerClock {
    /// Whether the server's clock has advanced against ours by more than the drift of two clocks.
    pub(in crate::engine) fn ran_away(
        &self,
        server: Duration,
        sent: Instant,
        received: Instant,
    ) -> bool {
        let mut last = lock(&self.0);
        let ran_away = last.is_some_and(|(before, at)| {
            // The server made the reply at some time between the sending and the receiving.
            let local = received.saturating_since(at);
            let allowance = local / 100 + Duration::from_millis(5);
            server.saturating_sub(before) > local + allowance
        });
        *last = Some((server, sent));
        ran_away
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    #[test]
    fn a_server_clock_that_runs_away_is_seen() {
        let t0 = Clock::boot().now();
        let at = |s| t0 + Duration::from_secs(s);
        let (clock, server) = (ServerClock::default(), Duration::from_secs(1_000_000));
        assert!(!clock.ran_away(server, t0, t0));
        assert!(!clock.ran_away(server + Duration::from_secs(10), at(10), at(10)));
        assert!(clock.ran_away(server + Duration::from_secs(80), at(20), at(20)));
    }
}
