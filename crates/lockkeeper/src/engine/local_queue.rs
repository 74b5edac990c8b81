//! The queue inside the process: of the tasks that want the same exclusive lock, one stands in the store's line.
//!
//! The place in line belongs to this queue, not to the task that opened it: a task that gives up hands its claim to
//! the next one. A turn only saves claims: who is behind a task that is polled no more stands in the store's line by
//! itself.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::lock::lock;
use super::{Engine, Hold};
use crate::LockName;
use crate::store::SessionSpec;

/// How often the task that has the turn shows that it is polled.
const SIGN: Duration = Duration::from_secs(5);
/// After so long without a sign the tasks behind do without their turn.
const TIME_LIMIT: Duration = Duration::from_secs(15);

type Key = (LockName, SessionSpec);

/// The queues with somebody in them.
#[derive(Debug, Default)]
pub(super) struct LocalQueues(Mutex<HashMap<Key, Arc<LocalQueue>>>);

#[cfg(feature = "testing")]
impl LocalQueues {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

#[derive(Debug, Default)]
struct LocalQueue {
    /// Tasks that have a turn or wait for one.
    present: AtomicUsize,
    /// Whose turn it is, first come first served; with the claim that the last one left behind.
    turn: Arc<tokio::sync::Mutex<Option<Arc<Hold>>>>,
    sign: Arc<Sign>,
}

/// How often the task that has a turn has shown that it is polled.
#[derive(Debug, Default)]
pub(super) struct Sign(AtomicU64);

/// Being in a queue. When the last one leaves, the queue and the claim left in it go too.
struct Presence {
    engine: Arc<Engine>,
    key: Key,
    queue: Arc<LocalQueue>,
}

/// The right to stand in the store's line for this process.
pub(super) struct Turn {
    // Dropped before the presence: the turn is free when the last one looks for a claim that was left.
    slot: OwnedMutexGuard<Option<Arc<Hold>>>,
    presence: Presence,
}

impl Engine {
    /// Waits for the turn of this task; `None` when the task that has it is polled no more. May be dropped.
    pub(super) async fn turn(
        self: &Arc<Self>,
        name: &LockName,
        spec: &SessionSpec,
        joined: impl FnOnce(usize),
    ) -> Option<Turn> {
        let (presence, before) = Presence::enter(self, (name.clone(), spec.clone()));
        if before > 0 {
            joined(before);
        }
        let mut slot = pin!(Arc::clone(&presence.queue.turn).lock_owned());
        let slot = presence.queue.sign.awaits(self, slot.as_mut()).await?;
        Some(Turn { slot, presence })
    }
}

impl Sign {
    fn show(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Awaits a turn; `None` when the task that has it is polled no more.
    pub(super) async fn awaits<F: Future>(&self, engine: &Engine, mut turn: Pin<&mut F>) -> Option<F::Output> {
        loop {
            let shown = self.0.load(Ordering::Acquire);
            // Two timers: after a pause of the machine one may be over before the other task is polled again.
            for limit in [TIME_LIMIT, SIGN] {
                if let Some(turn) = engine.clock.timeout(limit, turn.as_mut()).await {
                    return Some(turn);
                }
            }
            if self.0.load(Ordering::Acquire) == shown {
                return None;
            }
        }
    }
}

/// The signs of life of the task that has the turn.
pub(super) struct Pulse {
    engine: Arc<Engine>,
    sign: Arc<Sign>,
}

impl Pulse {
    pub(super) fn new(engine: &Arc<Engine>, sign: &Arc<Sign>) -> Self {
        Self { engine: Arc::clone(engine), sign: Arc::clone(sign) }
    }

    /// Polls `attempt`, and shows that it is polled.
    pub(super) async fn beside<F: Future>(self, attempt: F) -> F::Output {
        let mut attempt = pin!(attempt);
        loop {
            self.sign.show();
            if let Some(output) = self.engine.clock.timeout(SIGN, attempt.as_mut()).await {
                return output;
            }
        }
    }
}

impl Turn {
    pub(super) fn pulse(&self) -> Pulse {
        let Presence { engine, queue, .. } = &self.presence;
        Pulse::new(engine, &queue.sign)
    }

    /// The claim that the task before left, if it left one.
    pub(super) fn take_claim(&mut self) -> Option<Arc<Hold>> {
        self.slot.take()
    }

    /// Leaves the claim to the next task; `false` when there is none.
    pub(super) fn leave_claim(&mut self, hold: &Arc<Hold>) -> bool {
        let others = self.presence.queue.present.load(Ordering::Acquire) > 1;
        if others {
            *self.slot = Some(Arc::clone(hold));
        }
        others
    }
}

impl Presence {
    /// And how many were there before.
    fn enter(engine: &Arc<Engine>, key: Key) -> (Self, usize) {
        let mut queues = lock(&engine.queues.0);
        let queue = Arc::clone(queues.entry(key.clone()).or_default());
        let before = queue.present.fetch_add(1, Ordering::AcqRel);
        drop(queues);
        (Self { engine: Arc::clone(engine), key, queue }, before)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut queues = lock(&self.engine.queues.0);
        if self.queue.present.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        queues.remove(&self.key);
        drop(queues);
        // Nobody else can have the turn: nobody else was present.
        let left = self.queue.turn.try_lock().ok().and_then(|mut slot| slot.take());
        if let Some(hold) = left {
            self.engine.withdraw_later(&hold);
        }
    }
}
