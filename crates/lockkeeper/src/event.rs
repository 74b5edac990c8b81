//! What happens to locks, for people and programs that watch. Nothing is ever lost silently.
//!
//! One enum feeds all who watch: the log, the figures and the callback.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::figures::{Counted, Figures};
use crate::{Error, ErrorKind, FencingToken, LockName, LostReason, Mode, serial};

/// Something that happened to a lock of this keeper.
///
/// Goes to [`tracing`] (target `lockkeeper`), to [`KeeperBuilder::on_event`](crate::KeeperBuilder::on_event), and with
/// the feature `metrics` to the recorder of the `metrics` facade. It can be serialized: durations in milliseconds, tokens as
/// text, the kind of event as `event` in snake case.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt took its place in line.
    #[non_exhaustive]
    Queued {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// How many stand before it, holders included.
        ahead: u32,
    },
    /// Tasks of this process wait for the lock behind one of them.
    #[non_exhaustive]
    Contended {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// How many of them wait, the newest included.
        waiters: usize,
    },
    /// The store did not acknowledge a claim that stands in line. It is asked again for as long as the attempt may wait.
    #[non_exhaustive]
    ClaimFailed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Why.
        error: &'a Error,
    },
    /// An attempt ended without the lock.
    #[non_exhaustive]
    NotAcquired {
        /// The lock; of several, the one that the attempt waited for at the end.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// How the attempt ended.
        outcome: Missed,
        /// How long the attempt took.
        #[serde(rename = "waited_ms", serialize_with = "serial::millis")]
        waited: Duration,
        /// The error of the attempt. A `try_` form answers `None` for [`Missed::Busy`], and a future that is dropped has
        /// no error.
        error: Option<&'a Error>,
    },
    /// The lock was acquired.
    #[non_exhaustive]
    Acquired {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// How it is held.
        mode: Mode,
        /// How long the attempt took.
        #[serde(rename = "waited_ms", serialize_with = "serial::millis")]
        waited: Duration,
    },
    /// The store acknowledged a renewal of a held lock.
    #[non_exhaustive]
    Renewed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// How long the holder may believe now.
        #[serde(rename = "remaining_ms", serialize_with = "serial::millis")]
        remaining: Duration,
        /// How much of the lease was left when the acknowledgement came.
        #[serde(rename = "left_ms", serialize_with = "serial::millis")]
        left: Duration,
        /// How long a lease is.
        #[serde(rename = "ttl_ms", serialize_with = "serial::millis")]
        ttl: Duration,
    },
    /// A renewal of a held lock was not acknowledged. It is tried again before the deadline.
    #[non_exhaustive]
    RenewalFailed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Why.
        error: &'a Error,
        /// How long the holder may still believe.
        #[serde(rename = "remaining_ms", serialize_with = "serial::millis")]
        remaining: Duration,
    },
    /// The first failed renewal of a session: its locks are in danger.
    Jeopardy,
    /// A session is renewed again after a failure.
    Recovered,
    /// The store's clock has run ahead of this process's by more than two clocks may drift apart: leases may be shorter
    /// than they seem, and the session is in jeopardy until the next renewal. Or this machine's wall clock was set by
    /// 10 ms or more: the machine may have been paused, and what is held is renewed at once.
    ClockAnomaly,
    /// A lock was lost while it was held.
    #[non_exhaustive]
    Lost {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// Why.
        #[serde(flatten)]
        reason: &'a LostReason,
    },
    /// Somebody asks the holder of a lock to let go. Each request is told once.
    #[non_exhaustive]
    ReleaseRequested {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Who asks.
        by: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A lock was released.
    #[non_exhaustive]
    Released {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// How it was held.
        mode: Mode,
        /// How long it was held.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
    },
    /// A reader became the writer, with a token of its own.
    #[non_exhaustive]
    Upgraded {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// The token of the reader, which has ended.
        reader: FencingToken,
        /// The token of the writer.
        writer: FencingToken,
        /// How long the reader held the lock.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
        /// How long the upgrade took.
        #[serde(rename = "waited_ms", serialize_with = "serial::millis")]
        waited: Duration,
    },
    /// A writer became a reader, and keeps its token.
    #[non_exhaustive]
    Downgraded {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// How long the writer held the lock.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
    },
    /// The store did not acknowledge a release. It is tried again until the lease ends.
    #[non_exhaustive]
    ReleaseFailed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Why.
        error: &'a Error,
    },
    /// A guard was dropped. Its lock is released in the background.
    #[non_exhaustive]
    DroppedWithoutRelease {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// How it was held.
        mode: Mode,
        /// How long it was held.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
    },
}

/// How an attempt ended that did not get the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// The attempt did not wait, and others held the lock or waited for it.
    Busy,
    /// The wait of the attempt was over.
    TimedOut,
    /// The queue of the lock was full.
    QueueFull,
    /// The store did not answer.
    Unavailable,
    /// The future of the attempt was dropped.
    Cancelled,
    /// The library or the store refused the attempt: a setting, a right, another kind of lock, a keeper that was shut down.
    Refused,
}

impl Missed {
    /// What an error of an attempt means, which waited for the lock or did not.
    pub(crate) fn by(error: &Error, waits: bool) -> Self {
        match error.kind() {
            ErrorKind::Timeout if waits => Self::TimedOut,
            ErrorKind::Timeout => Self::Busy,
            ErrorKind::QueueFull => Self::QueueFull,
            ErrorKind::Unavailable | ErrorKind::SessionLost => Self::Unavailable,
            _ => Self::Refused,
        }
    }
}

type Callback = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Where events go.
#[derive(Clone, Default)]
pub(crate) struct Events {
    callback: Option<Callback>,
    figures: Figures,
}

impl Events {
    /// The same, with somebody who hears of each.
    pub(crate) fn to(self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self { callback: Some(Arc::new(callback)), ..self }
    }

    /// The same, with a label for groups of locks.
    #[cfg(feature = "metrics")]
    pub(crate) fn grouped(self, group: impl Fn(&LockName) -> String + Send + Sync + 'static) -> Self {
        Self { figures: self.figures.grouped(group), ..self }
    }

    /// The same, once it is known of which store they speak.
    pub(crate) fn of(self, store: &dyn fmt::Display) -> Self {
        Self { figures: self.figures.of(store), ..self }
    }

    /// Must not be called with a lock of the engine held: the callback may call the keeper.
    pub(crate) fn emit(&self, event: &Event<'_>) {
        tell("log", || trace(event));
        tell("metrics recorder", || self.figures.count(event));
        if let Some(callback) = &self.callback {
            tell("on_event callback", || callback(event));
        }
    }

    /// An attempt counts as waiting for as long as this lives.
    pub(crate) fn waiting(&self, name: &LockName) -> Counted {
        self.figures.waiting(name)
    }

    /// A lock counts as held for as long as this lives.
    pub(crate) fn holding(&self, name: &LockName, mode: Mode) -> Counted {
        self.figures.holding(name, mode)
    }
}

/// Tells one of those who watch. A panic there must not take the watchdog or the deadlines with it, and with them every
/// lock of the process.
fn tell(whom: &str, tell: impl Fn()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        // It may be the log that panics.
        let complain = || tracing::error!(target: "lockkeeper", "the {whom} panicked; the event is lost");
        drop(catch_unwind(AssertUnwindSafe(complain)));
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events(callback: {})", self.callback.is_some())
    }
}

fn trace(event: &Event<'_>) {
    match event {
        Event::Queued { name, ahead } => tracing::debug!(target: "lockkeeper", lock = %name, ahead, "queued"),
        Event::Contended { name, waiters } => {
            tracing::debug!(target: "lockkeeper", lock = %name, waiters, "contended");
        }
        Event::ClaimFailed { name, error } => {
            tracing::warn!(target: "lockkeeper", lock = %name, %error, "waiting without the store");
        }
        Event::NotAcquired { name, outcome, waited, error } => {
            let error = error.map(tracing::field::display);
            tracing::debug!(target: "lockkeeper", lock = %name, ?outcome, ?waited, error, "not acquired");
        }
        Event::Upgraded { name, reader, writer, held, waited } => {
            tracing::debug!(target: "lockkeeper", lock = %name, %reader, %writer, ?held, ?waited, "upgraded");
        }
        Event::Downgraded { name, token, held } => {
            tracing::debug!(target: "lockkeeper", lock = %name, %token, ?held, "downgraded");
        }
        Event::Acquired { name, token, waited, .. } => {
            tracing::debug!(target: "lockkeeper", lock = %name, %token, ?waited, "acquired");
        }
        Event::Renewed { name, remaining, left, .. } => {
            tracing::trace!(target: "lockkeeper", lock = %name, ?remaining, ?left, "renewed");
        }
        Event::RenewalFailed { name, error, remaining } => {
            tracing::warn!(target: "lockkeeper", lock = %name, %error, ?remaining, "renewal failed");
        }
        Event::Jeopardy => tracing::warn!(target: "lockkeeper", "session in jeopardy"),
        Event::Recovered => tracing::info!(target: "lockkeeper", "session recovered"),
        Event::ClockAnomaly => {
            tracing::warn!(target: "lockkeeper", "the store's clock runs faster than ours, or ours was set")
        }
        Event::Lost { name, token, reason } => {
            tracing::error!(target: "lockkeeper", lock = %name, %token, %reason, "lost");
        }
        Event::ReleaseRequested { name, by, reason } => {
            tracing::info!(target: "lockkeeper", lock = %name, by, reason, "asked to let go");
        }
        Event::Released { name, token, held, .. } => {
            tracing::debug!(target: "lockkeeper", lock = %name, %token, ?held, "released");
        }
        Event::ReleaseFailed { name, error } => {
            tracing::warn!(target: "lockkeeper", lock = %name, %error, "release failed");
        }
        Event::DroppedWithoutRelease { name, token, held, .. } => {
            tracing::debug!(target: "lockkeeper", lock = %name, %token, ?held, "dropped without release");
        }
    }
}
