//! Until when a client believes in a claim, and why it stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::LostReason;
use crate::time::Instant;

const NEVER: u64 = u64::MAX;
/// The deadline of an adopted claim that no request of this process has found held.
const UNPROVEN: u64 = 0;

/// The client's belief in a claim. An atomic keeps the deadline, so `check` needs neither a mutex
/// nor a running task.
#[derive(Debug)]
pub(super) struct Belief {
    /// The end of the lease.
    deadline: AtomicU64,
    /// The end of the longest hold.
    ends: AtomicU64,
    lost: OnceLock<LostReason>,
    /// The store may have granted the lock to another client. This is apart from the reason of the
    /// loss: after some losses the holder still keeps others out.
    given_away: AtomicBool,
}

impl Belief {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline: AtomicU64::new(deadline.as_nanos()),
            ends: AtomicU64::new(NEVER),
            lost: OnceLock::new(),
            given_away: AtomicBool::new(false),
        }
    }

    /// A belief that begins with the first renewal.
    pub(super) fn unproven() -> Self {
        Self::until(Instant::from_nanos(UNPROVEN))
    }

    /// Raises the end of the lease. The caller ensures that the old end has not passed.
    pub(super) fn raise(&self, until: Instant) {
        self.deadline.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Ends the belief at `at`, even if the claim is renewed.
    pub(super) fn end_at(&self, at: Instant) {
        self.ends.fetch_min(at.as_nanos(), Ordering::AcqRel);
    }

    /// Ends the belief no later than the longest hold of another claim.
    pub(super) fn end_with(&self, other: &Self) {
        self.ends.fetch_min(other.ends.load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// The end of the lease that the client may believe in.
    pub(super) fn lease_deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether any request of this process has found the claim in the store.
    pub(super) fn is_proven(&self) -> bool {
        self.deadline.load(Ordering::Acquire) != UNPROVEN
    }

    /// When the client stops believing in the claim.
    pub(super) fn deadline(&self) -> Instant {
        let lease = self.deadline.load(Ordering::Acquire);
        let proven = if lease == UNPROVEN { NEVER } else { lease };
        Instant::from_nanos(proven.min(self.ends.load(Ordering::Acquire)))
    }

    /// The reason of an end by the clock.
    pub(super) fn end_by_clock(&self, now: Instant) -> LostReason {
        if now.as_nanos() >= self.ends.load(Ordering::Acquire) {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        }
    }

    pub(super) fn lease_is_over(&self, now: Instant) -> bool {
        self.is_proven() && now >= self.lease_deadline()
    }

    /// The first noted reason of an end.
    pub(super) fn loss(&self) -> Option<&LostReason> {
        self.lost.get()
    }

    /// Notes the reason of the end. The first reason stands; returns whether this is the first.
    pub(super) fn end(&self, reason: LostReason) -> bool {
        self.lost.set(reason).is_ok()
    }

    /// Notes that others may have the lock from now on; returns whether that is new.
    pub(super) fn give_away(&self) -> bool {
        !self.given_away.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_given_away(&self) -> bool {
        self.given_away.load(Ordering::Acquire)
    }
}
