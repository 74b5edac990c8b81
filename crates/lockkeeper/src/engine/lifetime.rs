//! Whether an engine can be used: only in the process and the runtime in which it was started, and
//! until its shutdown.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use tokio::sync::Notify;

use crate::{Error, ErrorKind, Result};
use lockkeeper_core::kit::{Process, watchful};

#[derive(Debug)]
pub(crate) struct Lifetime {
    /// The process that has started the engine.
    process: Process,
    /// The id of that process, or another one for a test.
    pid: AtomicU32,
    /// A task of the runtime has the other end, which is dropped with the runtime.
    runtime: Weak<()>,
    closed: AtomicBool,
    /// Notified when the engine closes, for the local waiters.
    closing: Notify,
}

impl Lifetime {
    /// The lifetime, and the value that a task of the runtime has to keep.
    pub(super) fn begin() -> (Self, Arc<()>) {
        let runtime = Arc::new(());
        let lifetime = Self {
            process: Process::this(),
            pid: std::process::id().into(),
            runtime: Arc::downgrade(&runtime),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        };
        (lifetime, runtime)
    }

    /// # Errors
    /// `Forked` in a forked child, `Closed` after a shutdown, or when the runtime has ended.
    pub(super) fn usable(&self) -> Result<()> {
        if !(self.is_here() && self.process.is_this_in_its_namespace()) {
            return Err(Error::new(
                ErrorKind::Forked,
                "this process was forked after the keeper had connected",
            )
            .with_remedy("connect in the child; to a file store, connect in the children alone"));
        }
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the keeper was shut down")
                .with_remedy("connect again"));
        }
        if self.has_no_runtime() {
            let problem =
                "the runtime in which the keeper was connected has ended, and with it all renewals";
            let remedy =
                "connect in a runtime that lives as long as the keeper, or with dedicated_thread()";
            return Err(Error::new(ErrorKind::Closed, problem).with_remedy(remedy));
        }
        Ok(())
    }

    /// Whether this is the process that has started the engine.
    pub(crate) fn is_here(&self) -> bool {
        self.pid.load(Ordering::Relaxed) == std::process::id()
    }

    /// Makes the engine behave as in a forked child.
    #[cfg(test)]
    pub(crate) fn pretend_to_be_forked(&self) {
        self.pid.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the runtime has ended: none of its tasks runs, and none of its timers may be polled.
    pub(crate) fn has_no_runtime(&self) -> bool {
        self.runtime.strong_count() == 0
    }

    /// The result of `poll`. A timer that is polled while its runtime ends only panics.
    ///
    /// # Errors
    /// `Closed` if the runtime has ended meanwhile.
    pub(crate) fn unless_ended<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Result<Poll<T>> {
        catch_unwind(AssertUnwindSafe(poll)).or_else(|panic| match self.usable() {
            Err(error) if self.has_no_runtime() => Err(error.with_unknown_effect()),
            _ => resume_unwind(panic),
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the engine for good.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    /// Completes when the engine is closed.
    pub(super) async fn closed(&self) {
        watchful(&self.closing, || self.is_closed().then_some(())).await;
    }
}
