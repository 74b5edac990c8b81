//! Events as figures, for the `metrics` facade. `docs/metrics.md` is their list.
//!
//! No label carries a lock's name: a program may have millions of locks, and each value of a label is kept for ever.

use std::fmt::Display;
use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit, with_recorder};

use crate::event::Event;
use crate::{LostReason, Mode};

const WAIT: &str = "lockkeeper_wait_seconds";
const HOLD: &str = "lockkeeper_hold_seconds";
const RENEWALS: &str = "lockkeeper_renewals_total";
const SLACK: &str = "lockkeeper_renewal_slack_ratio";
const LOSSES: &str = "lockkeeper_losses_total";
const WAITERS: &str = "lockkeeper_waiters";
const RELEASE_FAILURES: &str = "lockkeeper_release_failures_total";
const DROPPED: &str = "lockkeeper_dropped_guards_total";
const CLOCK_ANOMALIES: &str = "lockkeeper_clock_anomalies_total";

const MODES: [&str; 3] = ["exclusive", "shared", "permits"];
const REASONS: [&str; 8] =
    ["expired", "broken", "max_hold", "session_expired", "shutdown", "forked", "forgotten", "uncollected"];

static METADATA: Metadata<'static> = Metadata::new("lockkeeper", Level::INFO, Some("lockkeeper"));

/// Where figures go. The recorder is looked up each time, so that it may be installed after the keeper was connected;
/// the keys are made once, so that without a recorder nothing is allocated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Option<Arc<Keys>>);

#[derive(Debug)]
struct Keys {
    wait: [Key; 3],
    hold: [Key; 3],
    renewed: Key,
    not_renewed: Key,
    slack: Key,
    losses: [Key; 8],
    waiters: Key,
    release_failures: Key,
    dropped: Key,
    clock_anomalies: Key,
}

/// One who waits, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Option<Gauge>);

impl Figures {
    /// The figures of the keepers on a store, which is shown by the scheme of its address.
    pub(crate) fn of(store: &dyn Display) -> Self {
        with_recorder(describe);
        let store: Arc<str> = scheme(&store.to_string()).into();
        let with = |name: &'static str, own: Option<(&'static str, &'static str)>| {
            let own = own.map(|(key, value)| Label::from_static_parts(key, value));
            Key::from_parts(name, own.into_iter().chain([Label::new("store", Arc::clone(&store))]).collect::<Vec<_>>())
        };
        Self(Some(Arc::new(Keys {
            wait: MODES.map(|mode| with(WAIT, Some(("mode", mode)))),
            hold: MODES.map(|mode| with(HOLD, Some(("mode", mode)))),
            renewed: with(RENEWALS, Some(("result", "acknowledged"))),
            not_renewed: with(RENEWALS, Some(("result", "failed"))),
            slack: with(SLACK, None),
            losses: REASONS.map(|reason| with(LOSSES, Some(("reason", reason)))),
            waiters: with(WAITERS, None),
            release_failures: with(RELEASE_FAILURES, None),
            dropped: with(DROPPED, None),
            clock_anomalies: with(CLOCK_ANOMALIES, None),
        })))
    }

    pub(crate) fn count(&self, event: &Event<'_>) {
        let Some(keys) = &self.0 else { return };
        match event {
            Event::Acquired { mode, waited, .. } => histogram(&keys.wait[mode_of(*mode)]).record(*waited),
            Event::Released { mode, held, .. } => histogram(&keys.hold[mode_of(*mode)]).record(*held),
            Event::DroppedWithoutRelease { mode, held, .. } => {
                histogram(&keys.hold[mode_of(*mode)]).record(*held);
                counter(&keys.dropped).increment(1);
            }
            Event::Renewed { left, ttl, .. } => {
                counter(&keys.renewed).increment(1);
                histogram(&keys.slack).record(left.as_secs_f64() / ttl.as_secs_f64());
            }
            Event::RenewalFailed { .. } => counter(&keys.not_renewed).increment(1),
            Event::Lost { reason, .. } => counter(&keys.losses[reason_of(reason)]).increment(1),
            Event::ReleaseFailed { .. } => counter(&keys.release_failures).increment(1),
            Event::ClockAnomaly => counter(&keys.clock_anomalies).increment(1),
            Event::Queued { .. }
            | Event::Contended { .. }
            | Event::ClaimFailed { .. }
            | Event::Jeopardy
            | Event::Recovered => {}
        }
    }

    /// One more who waits.
    pub(crate) fn waiting(&self) -> Waiting {
        let gauge = self.0.as_ref().map(|keys| with_recorder(|r| r.register_gauge(&keys.waiters, &METADATA)));
        if let Some(gauge) = &gauge {
            gauge.increment(1.0);
        }
        Waiting(gauge)
    }
}

impl Drop for Waiting {
    /// On the gauge that was raised, whatever recorder there is now.
    fn drop(&mut self) {
        if let Some(gauge) = &self.0 {
            gauge.decrement(1.0);
        }
    }
}

fn counter(key: &Key) -> Counter {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA))
}

fn histogram(key: &Key) -> Histogram {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
}

/// The scheme of a store's address. A store of somebody else's may show anything, and a label must not.
fn scheme(address: &str) -> &str {
    let plain = |scheme: &&str| scheme.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    address.split_once(':').map(|(scheme, _)| scheme).filter(plain).filter(|s| !s.is_empty()).unwrap_or("other")
}

/// The index in [`MODES`].
fn mode_of(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Permits(_) => 2,
    }
}

/// The index in [`REASONS`].
fn reason_of(reason: &LostReason) -> usize {
    match reason {
        LostReason::Expired => 0,
        LostReason::Broken { .. } | LostReason::Removed { .. } => 1,
        LostReason::MaxHold => 2,
        LostReason::SessionExpired => 3,
        LostReason::Shutdown => 4,
        LostReason::Forked => 5,
        LostReason::Forgotten => 6,
        LostReason::Uncollected => 7,
    }
}

fn describe(recorder: &dyn Recorder) {
    let seconds = |name: &'static str, text: &'static str| {
        recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
    };
    let count = |name: &'static str, text: &'static str| {
        recorder.describe_counter(name.into(), Some(Unit::Count), text.into());
    };
    seconds(WAIT, "How long attempts took that got the lock");
    seconds(HOLD, "How long locks were held that were released or dropped");
    recorder.describe_histogram(
        SLACK.into(),
        None,
        "What part of the ttl was left when a renewal of a held lock was acknowledged".into(),
    );
    recorder.describe_gauge(WAITERS.into(), Some(Unit::Count), "Attempts that wait for others".into());
    count(RENEWALS, "Renewals of held locks, by result");
    count(LOSSES, "Locks that were lost while they were held, by reason");
    count(RELEASE_FAILURES, "Tries to release that the store did not acknowledge");
    count(DROPPED, "Guards that were dropped without a release");
    count(CLOCK_ANOMALIES, "Renewals after which the store's clock had run ahead of the keeper's");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_by_its_scheme_only() {
        for (address, shown) in [
            ("memory:", "memory"),
            ("file:/var/lib/locks.db", "file"),
            ("redis://10.0.0.5:6379", "redis"),
            ("My Store: 42", "other"),
            ("a store", "other"),
            (":", "other"),
        ] {
            assert_eq!(scheme(address), shown);
        }
    }
}
