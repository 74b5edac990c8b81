//! The events of locks, for the log, the metrics and the callback. No loss is silent.

use std::time::Duration;

use serde::Serialize;

use crate::{Error, ErrorKind, FencingToken, LockName, LostReason, Mode, serial};

/// Something that happened to a lock of this keeper.
///
/// Each event goes to [`tracing`] (target `lockkeeper`), to
/// [`KeeperBuilder::on_event`](crate::KeeperBuilder::on_event), and with the feature `metrics` to
/// the recorder of the `metrics` facade. The serialized form has durations in milliseconds, tokens
/// as text, and the kind of event as `event` in snake case.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt took its place in the queue.
    #[non_exhaustive]
    Queued {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// The number of claims before it, holders included.
        ahead: u32,
    },
    /// Several tasks of this process wait for the lock, one behind the other.
    #[non_exhaustive]
    Contended {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// The number of these tasks, the newest included.
        waiters: usize,
    },
    /// The store did not acknowledge a waiting claim. The attempt asks the store again for as long
    /// as it may wait.
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
        /// The lock. For an attempt on several locks, the lock that it waited for at the end.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// How the attempt ended.
        outcome: Missed,
        /// How long the attempt took.
        #[serde(rename = "waited_ms", serialize_with = "serial::millis")]
        waited: Duration,
        /// The error of the attempt. A `try_` form returns `None` for [`Missed::Busy`], and a
        /// dropped future has no error.
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
        /// The mode in which the lock is held.
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
        /// Time left before the guard reports the lock as lost, unless another renewal succeeds
        /// first.
        #[serde(rename = "remaining_ms", serialize_with = "serial::millis")]
        remaining: Duration,
        /// Time left of the lease when the acknowledgement came.
        #[serde(rename = "left_ms", serialize_with = "serial::millis")]
        left: Duration,
        /// The length of a lease.
        #[serde(rename = "ttl_ms", serialize_with = "serial::millis")]
        ttl: Duration,
    },
    /// The store did not acknowledge a renewal of a held lock. The keeper tries again before the
    /// deadline.
    #[non_exhaustive]
    RenewalFailed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Why.
        error: &'a Error,
        /// Time left before the guard reports the lock as lost, unless a renewal succeeds first.
        #[serde(rename = "remaining_ms", serialize_with = "serial::millis")]
        remaining: Duration,
    },
    /// The first failed renewal of a session: its locks are in danger.
    Jeopardy,
    /// A renewal of a session succeeded again after a failure.
    Recovered,
    /// The store's clock has run ahead of the clock of this process by more than the drift
    /// allowance. Leases may be shorter than they seem, and the session is in jeopardy until the
    /// next renewal. The other cause: the wall clock of this machine was set by 10 ms or more. The
    /// machine may have been paused, so the keeper renews all held locks at once.
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
    /// An operator asks the holder of a lock to release it. Each request causes one event.
    #[non_exhaustive]
    ReleaseRequested {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// The operator: the owner of the keeper that made the request.
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
        /// The mode in which the lock was held.
        mode: Mode,
        /// How long it was held.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
    },
    /// A reader became the writer. The writer has a new token.
    #[non_exhaustive]
    Upgraded {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// The token of the reader. It is no longer valid.
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
    /// A writer became a reader. The reader keeps the token.
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
    /// The store did not acknowledge a release. The keeper tries again until the lease expires.
    #[non_exhaustive]
    ReleaseFailed {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Why.
        error: &'a Error,
    },
    /// A guard was dropped without a release. The keeper releases its lock in the background.
    #[non_exhaustive]
    DroppedWithoutRelease {
        /// The lock.
        #[serde(rename = "lock")]
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// The mode in which the lock was held.
        mode: Mode,
        /// How long it was held.
        #[serde(rename = "held_ms", serialize_with = "serial::millis")]
        held: Duration,
    },
}

/// How an attempt ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// The attempt did not wait, and the lock had other holders or waiters.
    Busy,
    /// The attempt waited for its whole wait.
    TimedOut,
    /// The queue of the lock was full.
    QueueFull,
    /// The store did not answer.
    Unavailable,
    /// The future of the attempt was dropped.
    Cancelled,
    /// The library or the store refused the attempt, for example because of a setting, a missing
    /// right, another kind of lock, or a keeper that was shut down.
    Refused,
}

impl Missed {
    /// The outcome for an error of an attempt that waited, or did not.
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
