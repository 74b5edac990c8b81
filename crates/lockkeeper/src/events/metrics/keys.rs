//! The names and the labels of the metrics, as docs/metrics.md lists them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Key, Label, Recorder, Unit};

use super::METADATA;
use crate::event::Missed;
use crate::{LostReason, Mode};

const WAIT: &str = "lockkeeper_wait_seconds";
const HOLD: &str = "lockkeeper_hold_seconds";
const HELD: &str = "lockkeeper_held";
const ATTEMPTS: &str = "lockkeeper_attempts_total";
const RENEWALS: &str = "lockkeeper_renewals_total";
const SLACK: &str = "lockkeeper_renewal_slack_ratio";
const LOSSES: &str = "lockkeeper_losses_total";
const WAITERS: &str = "lockkeeper_waiters";
const RELEASE_FAILURES: &str = "lockkeeper_release_failures_total";
const DROPPED: &str = "lockkeeper_dropped_guards_total";
const CLOCK_ANOMALIES: &str = "lockkeeper_clock_anomalies_total";

const MODES: [&str; 3] = ["exclusive", "shared", "permits"];
const REASONS: [&str; 8] = [
    "expired",
    "broken",
    "max_hold",
    "session_expired",
    "shutdown",
    "forked",
    "forgotten",
    "uncollected",
];

const OUTCOMES: [&str; 7] =
    ["acquired", "busy", "timed_out", "queue_full", "unavailable", "cancelled", "refused"];
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) store: Arc<str>,
    pub(super) wait: [Key; 3],
    pub(super) hold: [Key; 3],
    pub(super) held: [Key; 3],
    pub(super) attempts: [Key; 7],
    pub(super) renewed: Key,
    pub(super) not_renewed: Key,
    pub(super) slack: Key,
    pub(super) losses: [Key; 8],
    pub(super) waiters: Key,
    pub(super) release_failures: Key,
    pub(super) dropped: Key,
    pub(super) clock_anomalies: Key,
    /// The address of the recorder that has the counters already.
    shown_to: AtomicUsize,
}

impl Keys {
    pub(super) fn new(store: &Arc<str>, group: Option<&str>) -> Self {
        let group: Option<Arc<str>> = group.map(Into::into);
        let with = |name: &'static str, own: Option<(&'static str, &'static str)>| {
            let own = own.map(|(key, value)| Label::from_static_parts(key, value));
            let group = group.iter().map(|group| Label::new("group", Arc::clone(group)));
            let store = Label::new("store", Arc::clone(store));
            Key::from_parts(name, own.into_iter().chain(group).chain([store]).collect::<Vec<_>>())
        };
        Self {
            store: Arc::clone(store),
            wait: MODES.map(|mode| with(WAIT, Some(("mode", mode)))),
            hold: MODES.map(|mode| with(HOLD, Some(("mode", mode)))),
            held: MODES.map(|mode| with(HELD, Some(("mode", mode)))),
            attempts: OUTCOMES.map(|outcome| with(ATTEMPTS, Some(("outcome", outcome)))),
            renewed: with(RENEWALS, Some(("result", "acknowledged"))),
            not_renewed: with(RENEWALS, Some(("result", "failed"))),
            slack: with(SLACK, None),
            losses: REASONS.map(|reason| with(LOSSES, Some(("reason", reason)))),
            waiters: with(WAITERS, None),
            release_failures: with(RELEASE_FAILURES, None),
            dropped: with(DROPPED, None),
            clock_anomalies: with(CLOCK_ANOMALIES, None),
            shown_to: AtomicUsize::new(0),
        }
    }
}

/// The scheme of a store's address. The address of a store in another crate may contain anything,
/// and a label must not.
pub(super) fn scheme(address: &str) -> &str {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'+');
    let plain = |scheme: &&str| scheme.bytes().all(is_plain);
    address
        .split_once(':')
        .map(|(scheme, _)| scheme)
        .filter(plain)
        .filter(|s| !s.is_empty())
        .unwrap_or("other")
}

/// The index in [`MODES`].
pub(super) fn mode_of(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Permits(_) => 2,
    }
}

/// The index in [`OUTCOMES`].
pub(super) fn outcome_of(outcome: Missed) -> usize {
    match outcome {
        Missed::Busy => 1,
        Missed::TimedOut => 2,
        Missed::QueueFull => 3,
        Missed::Unavailable => 4,
        Missed::Cancelled => 5,
        Missed::Refused => 6,
    }
}

/// The index in [`REASONS`]. A lock whose claim was removed counts as broken.
pub(super) fn reason_of(reason: &LostReason) -> usize {
    let word = match reason {
        LostReason::Removed { .. } => "broken",
        other => other.word(),
    };
    REASONS.iter().position(|known| *known == word).unwrap_or(0)
}

impl Keys {
    fn counters(&self) -> impl Iterator<Item = &Key> {
        let others = [
            &self.renewed,
            &self.not_renewed,
            &self.release_failures,
            &self.dropped,
            &self.clock_anomalies,
        ];
        self.attempts.iter().chain(&self.losses).chain(others)
    }

    /// Adds all counters to this recorder, each at 0: otherwise the first event would be no
    /// increase.
    pub(super) fn appear(&self, recorder: &dyn Recorder) {
        let this = std::ptr::from_ref(recorder).cast::<()>().addr();
        if self.shown_to.swap(this, Ordering::Relaxed) != this {
            for key in self.counters() {
                drop(recorder.register_counter(key, &METADATA));
            }
        }
    }
}

pub(super) fn describe(recorder: &dyn Recorder) {
    let seconds = |name: &'static str, text: &'static str| {
        recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
    };
    let count = |name: &'static str, text: &'static str| {
        recorder.describe_counter(name.into(), Some(Unit::Count), text.into());
    };
    seconds(WAIT, "Time that successful attempts took to get the lock");
    seconds(HOLD, "Time from the grant of a lock to its release");
    recorder.describe_histogram(
        SLACK.into(),
        None,
        "Part of the ttl that was left when the store acknowledged a renewal".into(),
    );
    recorder.describe_gauge(HELD.into(), Some(Unit::Count), "Locks that are held now".into());
    count(ATTEMPTS, "Attempts to acquire a lock, by outcome");
    recorder.describe_gauge(
        WAITERS.into(),
        Some(Unit::Count),
        "Attempts that wait for other holders".into(),
    );
    count(RENEWALS, "Renewals of held locks, by result");
    count(LOSSES, "Locks that were lost while they were held, by reason");
    count(RELEASE_FAILURES, "Release requests that the store did not acknowledge");
    count(DROPPED, "Guards that were dropped without a release");
    count(
        CLOCK_ANOMALIES,
        "Times that the store's clock ran ahead of the keeper's, or the wall clock was set",
    );
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
            ("redis+sentinel://s1,s2/mymaster", "redis+sentinel"),
            ("rediss+cluster://n1", "rediss+cluster"),
            ("My Store: 42", "other"),
            ("a store", "other"),
            (":", "other"),
        ] {
            assert_eq!(scheme(address), shown);
        }
    }

    #[test]
    fn the_description_of_the_clock_anomalies_has_both_causes() {
        let recorder = metrics_util::debugging::DebuggingRecorder::new();
        describe(&recorder);
        let metadata = metrics::Metadata::new("", metrics::Level::INFO, None);
        drop(recorder.register_counter(&Key::from_name(CLOCK_ANOMALIES), &metadata));
        let all = recorder.snapshotter().snapshot().into_vec();
        let [(_, _, Some(text), _)] = all.as_slice() else { panic!("{all:?}") };
        assert!(
            text.contains("the store's clock ran ahead") && text.contains("wall clock was set"),
            "{text}"
        );
    }

    #[test]
    fn the_page_of_the_metrics_lists_them_all() {
        let page = include_str!("../../../../../docs/metrics.md");
        let tables: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        // The command line has metrics of its own.
        let is_ours =
            |name: &String| name.starts_with("lockkeeper_") && !name.starts_with("lockkeeper_run_");
        let first = |line: &str| line.split('`').nth(1).unwrap().to_owned();
        let listed: Vec<String> = tables.iter().map(|line| first(line)).filter(is_ours).collect();
        let mut known = vec![
            WAIT,
            HOLD,
            HELD,
            ATTEMPTS,
            RENEWALS,
            SLACK,
            LOSSES,
            WAITERS,
            RELEASE_FAILURES,
            DROPPED,
            CLOCK_ANOMALIES,
        ];
        let mut sorted: Vec<&str> = listed.iter().map(String::as_str).collect();
        known.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, known);
        for (label, values) in [("mode", &MODES[..]), ("outcome", &OUTCOMES), ("reason", &REASONS)]
        {
            let line = tables.iter().find(|line| first(line) == label).unwrap();
            let listed: Vec<&str> = line.split('`').skip(3).step_by(2).collect();
            assert_eq!(listed, values, "{label}");
        }
    }
}
