//! Events as metrics, for the `metrics` facade. `docs/metrics.md` is their list.
//!
//! No label carries a lock's name: a program may have millions of locks, and each value of a label
//! is kept for ever.

mod keys;

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{Counter, Gauge, Histogram, Key, Level, Metadata, with_recorder};

use self::keys::{Keys, describe, mode_of, outcome_of, reason_of, scheme};
use crate::event::Event;
use crate::{LockName, Mode};

/// How many groups have metrics of their own: a recorder keeps them for ever.
const GROUPS: usize = 100;
/// The group of all later groups.
const OTHER: &str = "other";

static METADATA: Metadata<'static> = Metadata::new("lockkeeper", Level::INFO, Some("lockkeeper"));

/// The metrics of a keeper. Each event looks the recorder up, so a program may install it after the
/// connection. The keys are made once, so an event without a recorder allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    keys: Option<Arc<Keys>>,
    groups: Option<Arc<Groups>>,
}

/// The groups of locks, which have a label.
struct Groups {
    of: Box<dyn Fn(&LockName) -> String + Send + Sync>,
    known: RwLock<HashMap<String, Arc<Keys>>>,
}

/// Raises a gauge by one, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Counted(Option<Gauge>);

impl Metrics {
    /// The metrics of the keepers on a store. Their label is the scheme of the store's address.
    pub(crate) fn of(self, store: &dyn Display) -> Self {
        let store: Arc<str> = scheme(&store.to_string()).into();
        let keys = Keys::new(&store, None);
        with_recorder(|recorder| {
            describe(recorder);
            // With groups, every lock is counted in a group.
            if self.groups.is_none() {
                keys.appear(recorder);
            }
        });
        Self { keys: Some(Arc::new(keys)), ..self }
    }

    pub(crate) fn grouped(self, of: impl Fn(&LockName) -> String + Send + Sync + 'static) -> Self {
        Self {
            groups: Some(Arc::new(Groups { of: Box::new(of), known: RwLock::default() })),
            ..self
        }
    }

    pub(crate) fn count(&self, event: &Event<'_>) {
        match event {
            Event::Acquired { name, mode, waited, .. } => self.with(name, |keys| {
                counter(&keys.attempts[0]).increment(1);
                histogram(&keys.wait[mode_of(*mode)]).record(*waited);
            }),
            Event::NotAcquired { name, outcome, .. } => {
                self.with(name, |keys| counter(&keys.attempts[outcome_of(*outcome)]).increment(1));
            }
            Event::Upgraded { name, held, waited, .. } => self.with(name, |keys| {
                counter(&keys.attempts[0]).increment(1);
                histogram(&keys.hold[mode_of(Mode::Shared)]).record(*held);
                histogram(&keys.wait[mode_of(Mode::Exclusive)]).record(*waited);
            }),
            Event::Downgraded { name, held, .. } => {
                self.with(name, |keys| {
                    histogram(&keys.hold[mode_of(Mode::Exclusive)]).record(*held)
                });
            }
            Event::Released { name, mode, held, .. } => {
                self.with(name, |keys| histogram(&keys.hold[mode_of(*mode)]).record(*held));
            }
            Event::DroppedWithoutRelease { name, mode, held, .. } => self.with(name, |keys| {
                histogram(&keys.hold[mode_of(*mode)]).record(*held);
                counter(&keys.dropped).increment(1);
            }),
            Event::Renewed { name, left, ttl, .. } => self.with(name, |keys| {
                counter(&keys.renewed).increment(1);
                histogram(&keys.slack).record(left.as_secs_f64() / ttl.as_secs_f64());
            }),
            Event::RenewalFailed { name, .. } => {
                self.with(name, |keys| counter(&keys.not_renewed).increment(1))
            }
            Event::Lost { name, reason, .. } => {
                self.with(name, |keys| counter(&keys.losses[reason_of(reason)]).increment(1));
            }
            Event::ReleaseFailed { name, .. } => {
                self.with(name, |keys| counter(&keys.release_failures).increment(1))
            }
            Event::ClockAnomaly => {
                if let Some(keys) = &self.keys {
                    counter(&keys.clock_anomalies).increment(1);
                }
            }
            Event::Queued { .. }
            | Event::Contended { .. }
            | Event::ClaimFailed { .. }
            | Event::ReleaseRequested { .. }
            | Event::Jeopardy
            | Event::Recovered => {}
        }
    }

    /// Counts an attempt that waits for this lock.
    pub(crate) fn waiting(&self, name: &LockName) -> Counted {
        self.raise(name, |keys| &keys.waiters)
    }

    /// Counts a holder of this lock.
    pub(crate) fn holding(&self, name: &LockName, mode: Mode) -> Counted {
        self.raise(name, |keys| &keys.held[mode_of(mode)])
    }

    fn raise(&self, name: &LockName, key: impl Fn(&Keys) -> &Key) -> Counted {
        let mut gauge = None;
        self.with(name, |keys| {
            gauge = Some(with_recorder(|recorder| {
                keys.appear(recorder);
                recorder.register_gauge(key(keys), &METADATA)
            }));
        });
        if let Some(gauge) = &gauge {
            gauge.increment(1.0);
        }
        Counted(gauge)
    }

    /// Counts with the keys for this lock.
    fn with(&self, name: &LockName, count: impl FnOnce(&Keys)) {
        let Some(keys) = &self.keys else { return };
        match &self.groups {
            Some(groups) => count(&groups.keys(name, &keys.store)),
            None => count(keys),
        }
    }
}

impl Groups {
    fn keys(&self, name: &LockName, store: &Arc<str>) -> Arc<Keys> {
        let group = (self.of)(name);
        if let Some(keys) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&group) {
            return Arc::clone(keys);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let group = if known.len() < GROUPS || known.contains_key(&group) {
            group
        } else {
            OTHER.to_owned()
        };
        let keys =
            known.entry(group).or_insert_with_key(|group| Arc::new(Keys::new(store, Some(group))));
        Arc::clone(keys)
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Groups")
    }
}

impl Drop for Counted {
    /// Lowers the gauge that was raised, even if the recorder has changed since.
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
