//! The state that an attempt shares with its caller.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use tokio::sync::Notify;

use super::lock::lock;
use crate::events::Events;
use crate::metrics::Counted;
use crate::{Error, LockName};
use lockkeeper_core::kit::watchful;

/// Whether the caller still wants the lock, and what the store has answered so far.
#[derive(Debug, Default)]
pub(crate) struct AttemptControl {
    given_up: AtomicBool,
    notify: Notify,
    /// Set when other claims are known to want the lock. From then on, and for as long as this
    /// value lives, the attempt counts as waiting.
    waiting: OnceLock<Counted>,
    in_line: AtomicBool,
    /// The attempt has asked the store to keep a granted lock, so the lock may stay taken after a
    /// failure.
    keeps: AtomicBool,
    /// The index of the lock that is being acquired, among the locks that are wanted together.
    part: AtomicUsize,
    last_error: Mutex<Option<Error>>,
}

impl AttemptControl {
    /// The caller no longer wants the lock.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Call this before the look whether the attempt [is over](Self::is_over), and
    /// [`give_up`](Self::give_up) before the look whether it is keeping: so at least one of two
    /// threads sees the other.
    pub(super) fn set_keeping(&self, it_is: bool) {
        self.keeps.store(it_is, Ordering::SeqCst);
    }

    /// Whether the store may keep a lock that the caller does not get.
    pub(crate) fn is_keeping(&self) -> bool {
        self.keeps.load(Ordering::SeqCst)
    }

    pub(super) async fn over(&self) {
        watchful(&self.notify, || self.is_over().then_some(())).await;
    }

    /// Whether the store has answered that others hold the lock. Before that answer, the store
    /// takes the time, and not the wait.
    pub(crate) fn has_answer(&self) -> bool {
        self.waiting.get().is_some()
    }

    /// Other claims are known to want the lock, in this process or in the store.
    pub(super) fn set_waiting(&self, events: &Events, name: &LockName) {
        self.waiting.get_or_init(|| events.waiting(name));
    }

    /// The store has given the attempt a place in line.
    pub(super) fn join_line(&self, events: &Events, name: &LockName) {
        self.set_waiting(events, name);
        self.in_line.store(true, Ordering::Release);
    }

    pub(super) fn set_part(&self, part: usize) {
        self.part.store(part, Ordering::Release);
    }

    pub(crate) fn part(&self) -> usize {
        self.part.load(Ordering::Acquire)
    }

    pub(super) fn fail(&self, error: Error) {
        *lock(&self.last_error) = Some(error);
    }

    /// Whether the attempt has stood in the store's line: such an attempt outlasts an outage. A
    /// wait behind a task of the same process says nothing about the store.
    pub(super) fn was_in_line(&self) -> bool {
        self.in_line.load(Ordering::Acquire)
    }

    pub(crate) fn last_error(&self) -> Option<Error> {
        lock(&self.last_error).clone()
    }
}
