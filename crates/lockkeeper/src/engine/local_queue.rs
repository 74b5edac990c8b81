//! The queue inside the process: of the tasks that want the same exclusive lock, one stands in the
//! store's line.
//!
//! The place in line belongs to this queue, and not to the task that opened it: a task that gives
//! up leaves its claim to the next one. A turn only saves claims: a task behind one that is no
//! longer polled stands in the store's line by itself.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

use super::Hold;
use super::limits::{SIGN_EVERY, SIGN_LIMIT};
use super::lock::lock;
use crate::LockName;
use crate::store::SessionSpec;
use crate::time::Clock;

pub(super) type Key = (LockName, SessionSpec);
/// The turn, with the claim that the previous task has left.
pub(super) type Slot = OwnedMutexGuard<Option<Arc<Hold>>>;

/// The queues that have tasks.
#[derive(Debug, Default)]
pub(super) struct LocalQueues(Mutex<HashMap<Key, Arc<LocalQueue>>>);

#[derive(Debug, Default)]
pub(super) struct LocalQueue {
    /// The number of tasks that have the turn or wait for it.
    present: AtomicUsize,
    /// The turn, first come first served, with the claim that the last task has left.
    turn: Arc<tokio::sync::Mutex<Option<Arc<Hold>>>>,
    sign: Arc<Sign>,
}

/// How often the task that has a turn has shown that it is polled.
#[derive(Debug, Default)]
pub(super) struct Sign(AtomicU64);

/// The signs of life of the task that has the turn.
pub(super) struct Pulse {
    clock: Clock,
    sign: Arc<Sign>,
}

impl LocalQueues {
    /// Adds a task to this queue. Returns the queue, and how many tasks were in it before.
    pub(super) fn enter(&self, key: &Key) -> (Arc<LocalQueue>, usize) {
        let mut queues = lock(&self.0);
        let queue = Arc::clone(queues.entry(key.clone()).or_default());
        let before = queue.present.fetch_add(1, Ordering::AcqRel);
        (queue, before)
    }

    /// Removes a task. With the last task the queue goes too: returns the claim that was left in
    /// it.
    pub(super) fn leave(&self, key: &Key, queue: &LocalQueue) -> Option<Arc<Hold>> {
        let mut queues = lock(&self.0);
        if queue.present.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        queues.remove(key);
        drop(queues);
        // The turn is free: no other task was present.
        queue.turn.try_lock().ok().and_then(|mut slot| slot.take())
    }

    #[cfg(feature = "testing")]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl LocalQueue {
    /// Waits for the turn; `None` if the task that has it is no longer polled.
    pub(super) async fn turn(&self, clock: &Clock) -> Option<Slot> {
        let mut slot = pin!(Arc::clone(&self.turn).lock_owned());
        self.sign.awaits(clock, slot.as_mut()).await
    }

    pub(super) fn has_others(&self) -> bool {
        self.present.load(Ordering::Acquire) > 1
    }

    pub(super) fn sign(&self) -> &Arc<Sign> {
        &self.sign
    }
}

impl Sign {
    fn show(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Awaits a turn; `None` if the task that has it is no longer polled.
    pub(super) async fn awaits<F: Future>(
        &self,
        clock: &Clock,
        mut turn: Pin<&mut F>,
    ) -> Option<F::Output> {
        loop {
            let shown = self.0.load(Ordering::Acquire);
            // Two timers: after a pause of the machine one timer may be over before the other task
            // is polled again.
            for limit in [SIGN_LIMIT, SIGN_EVERY] {
                if let Some(turn) = clock.timeout(limit, turn.as_mut()).await {
                    return Some(turn);
                }
            }
            if self.0.load(Ordering::Acquire) == shown {
                return None;
            }
        }
    }
}

impl Pulse {
    pub(super) fn new(clock: &Clock, sign: &Arc<Sign>) -> Self {
        Self { clock: clock.clone(), sign: Arc::clone(sign) }
    }

    /// Polls `attempt`, and shows that it is polled.
    pub(super) async fn beside<F: Future>(self, attempt: F) -> F::Output {
        let mut attempt = pin!(attempt);
        loop {
            self.sign.show();
            if let Some(output) = self.clock.timeout(SIGN_EVERY, attempt.as_mut()).await {
                return output;
            }
        }
    }
}
