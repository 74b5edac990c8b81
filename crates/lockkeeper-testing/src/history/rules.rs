//! The rules that the check of a history asks of a lock.

use std::time::Duration;

use lockkeeper::store::MAX;

/// The rules that a lock has to keep.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The capacity of the lock. If its claims name their own capacities, this is at least the
    /// largest of them.
    pub capacity: u32,
    /// The lock-delay: how much longer than the guard reported the lock as held the store keeps a
    /// lock that was not released.
    pub lock_delay: Duration,
    /// How long a claim may stay in the store after its client gave it up, for any reason. `None`
    /// is without a limit.
    pub lingers: Option<Duration>,
}

impl Rules {
    /// The rules of a mutex, or of a read-write lock with exclusive writers.
    pub fn exclusive() -> Self {
        Self::permits(MAX)
    }

    /// The rules of a semaphore.
    pub fn permits(capacity: u32) -> Self {
        Self { capacity, lock_delay: Duration::ZERO, lingers: None }
    }

    /// The same rules with this lock-delay.
    #[must_use]
    pub fn delayed(self, lock_delay: Duration) -> Self {
        Self { lock_delay, ..self }
    }

    /// The same rules, where no claim stays in the store for longer than this after its end.
    #[must_use]
    pub fn lingering(self, lingers: Duration) -> Self {
        Self { lingers: Some(lingers), ..self }
    }
}
