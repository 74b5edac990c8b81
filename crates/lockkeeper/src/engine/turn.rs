//! The turn of a task in a queue of this process.

use std::sync::Arc;

use super::local_queue::{Key, LocalQueue, Pulse, Slot};
use super::{Engine, Hold};
use crate::LockName;
use crate::store::SessionSpec;

/// The right to stand in the store's line for this process.
pub(super) struct Turn {
    // Dropped before `presence`: the turn is free when the last presence looks for a claim in the
    // queue.
    slot: Slot,
    presence: Presence,
}

/// A task in a queue. With the last task, the queue and its claim go too.
struct Presence {
    engine: Arc<Engine>,
    key: Key,
    queue: Arc<LocalQueue>,
}

impl Engine {
    /// Waits for the turn of this task; `None` if the task that has it is no longer polled. May be
    /// dropped.
    pub(super) async fn turn(
        self: &Arc<Self>,
        name: &LockName,
        spec: &SessionSpec,
        joined: impl FnOnce(usize),
    ) -> Option<Turn> {
        let key = (name.clone(), spec.clone());
        let (queue, before) = self.queues.enter(&key);
        let presence = Presence { engine: Arc::clone(self), key, queue };
        if before > 0 {
            joined(before);
        }
        let slot = presence.queue.turn(&self.clock).await?;
        Some(Turn { slot, presence })
    }
}

impl Turn {
    pub(super) fn pulse(&self) -> Pulse {
        Pulse::new(&self.presence.engine.clock, self.presence.queue.sign())
    }

    /// The claim that the previous task has left, if there is one.
    pub(super) fn take_claim(&mut self) -> Option<Arc<Hold>> {
        self.slot.take()
    }

    /// Leaves the claim to the next task; `false` if there is none.
    pub(super) fn leave_claim(&mut self, hold: &Arc<Hold>) -> bool {
        let others = self.presence.queue.has_others();
        if others {
            *self.slot = Some(Arc::clone(hold));
        }
        others
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(hold) = self.engine.queues.leave(&self.key, &self.queue) {
            self.engine.withdraw_later(&hold);
        }
    }
}
