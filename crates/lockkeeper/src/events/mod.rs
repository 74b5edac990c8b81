//! The receivers of events: the log, the metrics and the callback.

pub(crate) mod event;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "no_metrics.rs"]
pub(crate) mod metrics;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::event::Event;
use crate::metrics::{Counted, Metrics};
use crate::{LockName, Mode};

type Callback = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// The receivers of the events of a keeper.
#[derive(Clone, Default)]
pub(crate) struct Events {
    callback: Option<Callback>,
    metrics: Metrics,
}

impl Events {
    /// Adds a callback for each event.
    pub(crate) fn to(self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self { callback: Some(Arc::new(callback)), ..self }
    }

    /// Adds a label for groups of locks.
    #[cfg(feature = "metrics")]
    pub(crate) fn grouped(
        self,
        group: impl Fn(&LockName) -> String + Send + Sync + 'static,
    ) -> Self {
        Self { metrics: self.metrics.grouped(group), ..self }
    }

    /// Adds the store to the metrics.
    pub(crate) fn of(self, store: &dyn fmt::Display) -> Self {
        Self { metrics: self.metrics.of(store), ..self }
    }

    /// Passes the event to all receivers. The caller must hold no mutex of the engine: the callback
    /// may call the keeper.
    pub(crate) fn emit(&self, event: &Event<'_>) {
        call("log", || trace(event));
        call("metrics recorder", || self.metrics.count(event));
        if let Some(callback) = &self.callback {
            call("on_event callback", || callback(event));
        }
    }

    /// Counts a waiting attempt, for as long as the result lives.
    pub(crate) fn waiting(&self, name: &LockName) -> Counted {
        self.metrics.waiting(name)
    }

    /// Counts a held lock, for as long as the result lives.
    pub(crate) fn holding(&self, name: &LockName, mode: Mode) -> Counted {
        self.metrics.holding(name, mode)
    }
}

/// Passes an event to one receiver. A panic there must not end the watchdog or the deadlines, and
/// with them every lock of the process.
fn call(receiver: &str, callback: impl Fn()) {
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        // The panic may come from the log itself.
        let complain =
            || tracing::error!(target: "lockkeeper", "the {receiver} panicked; the event is lost");
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
        Event::Queued { name, ahead } => {
            tracing::debug!(target: "lockkeeper", lock = %name, ahead, "queued")
        }
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
