//! Until when a client believes in a claim, and what ended that.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::LostReason;
use crate::time::Instant;

const NEVER: u64 = u64::MAX;
/// The deadline of what was adopted: no request of this process has found it held.
const UNPROVEN: u64 = 0;

/// The deadline is kept in an atomic, so that `check` needs neither a lock nor a running task.
#[derive(Debug)]
pub(super) struct Belief {
    /// The end of the lease.
    deadline: AtomicU64,
    /// The end of the longest hold.
    ends: AtomicU64,
    lost: OnceLock<LostReason>,
    /// The store may have given it to somebody else. Apart from the first reason, which may leave
    /// it to its holder.
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

    /// Nothing is believed before a renewal.
    pub(super) fn unproven() -> Self {
        Self::until(Instant::from_nanos(UNPROVEN))
    }

    /// Moves the end of the lease on. It only ever rises; the caller sees to it that it has not
    /// passed.
    pub(super) fn raise(&self, until: Instant) {
        self.deadline.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Ends at `at`, whatever is renewed.
    pub(super) fn end_at(&self, at: Instant) {
        self.ends.fetch_min(at.as_nanos(), Ordering::AcqRel);
    }

    /// Ends no later than the longest hold of another claim.
    pub(super) fn end_with(&self, other: &Self) {
        self.ends.fetch_min(other.ends.load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// The end of the lease, as the client may believe in it.
    pub(super) fn lease_deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether any request of this process has found it in the store.
    pub(super) fn is_proven(&self) -> bool {
        self.deadline.load(Ordering::Acquire) != UNPROVEN
    }

    /// When the client stops believing, if it does.
    pub(super) fn deadline(&self) -> Instant {
        let lease = self.deadline.load(Ordering::Acquire);
        let proven = if lease == UNPROVEN { NEVER } else { lease };
        Instant::from_nanos(proven.min(self.ends.load(Ordering::Acquire)))
    }

    /// Why it ends, when the clock has reached its deadline.
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

    /// The first reason of an end, as it was noted.
    pub(super) fn loss(&self) -> Option<&LostReason> {
        self.lost.get()
    }

    /// Notes why it ended. The first reason stands; whether this is it.
    pub(super) fn end(&self, reason: LostReason) -> bool {
        self.lost.set(reason).is_ok()
    }

    /// Others may have it from now on. Whether that is news.
    pub(super) fn give_away(&self) -> bool {
        !self.given_away.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_given_away(&self) -> bool {
        self.given_away.load(Ordering::Acquire)
    }
}
