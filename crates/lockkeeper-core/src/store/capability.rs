//! What a store can do, as data. It selects the kinds of locks, the tables in the documentation,
//! and the contract tests.

use std::time::Duration;

use super::{MAX, SessionSpec, refusal};
use crate::Result;

/// Which claims may share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// Semaphores only: claims of one permit or more.
    Permits,
    /// One holder.
    Exclusive,
    /// Readers together, writers alone.
    ReadWrite,
    /// Any weights and capacities.
    Weighted,
}

/// How far the fencing tokens of a store can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fencing {
    /// Other clients of this layout take no tokens. Only the clients of lockkeeper do.
    None,
    /// Tokens rise until an asynchronous failover loses the store's last writes.
    UntilFailover,
    /// Tokens rise for as long as the store's data is kept.
    Durable,
}

/// How a waiter learns that it may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// The store notifies the waiter.
    Push,
    /// The waiter asks the store from time to time.
    Poll,
}

/// What the lifetime of a claim depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Each claim expires on its own, and the requests of the claim renew it.
    PerClaim,
    /// Claims live as long as their session. A `claim` request renews nothing; an acknowledged
    /// `renew` renews the session.
    Session {
        /// Which acknowledged renewal proves that the session is alive: 0 the last one, 1 the one
        /// before it.
        proof_lag: u8,
    },
}

/// What a store can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Which claims may share a line.
    pub admission: Admission,
    /// How far its fencing tokens can be relied on.
    pub fencing: Fencing,
    /// Whether the store keeps a queue. Without a queue every lock is unfair.
    pub queue: bool,
    /// How waiters wake up.
    pub wake: Wakes,
    /// What the lifetime of a claim depends on.
    pub expiry: Expiry,
    /// Whether a [detached](SessionSpec::detached) session can be used through clients that did not
    /// open it, several at once. Without it no lock can be detached.
    pub resumable: bool,
    /// The shortest ttl.
    pub ttl_min: Duration,
    /// The longest ttl.
    pub ttl_max: Duration,
    /// The longest lock-delay.
    pub lock_delay_max: Duration,
    /// The longest minimum hold. Zero if the store keeps no claim after its release.
    pub min_hold_max: Duration,
    /// Whether a live claim can be changed: downgrade, proclaim.
    pub amend: bool,
    /// The largest number of waiters in one line.
    pub max_waiters: u32,
}

impl Capabilities {
    /// The strongest store: it can do everything, with times from 100 ms to a year. An implementer
    /// starts from this value and removes what the store cannot do.
    pub const fn full() -> Self {
        Self {
            admission: Admission::Weighted,
            fencing: Fencing::Durable,
            queue: true,
            wake: Wakes::Push,
            expiry: Expiry::PerClaim,
            resumable: true,
            ttl_min: Duration::from_millis(100),
            ttl_max: Duration::from_secs(365 * 24 * 3600),
            lock_delay_max: Duration::from_secs(24 * 3600),
            min_hold_max: Duration::from_secs(365 * 24 * 3600),
            amend: true,
            max_waiters: 100_000,
        }
    }

    /// Refuses a claim whose kind of lock the store does not have.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the kind that the store lacks.
    pub fn admits(&self, weight: u32, capacity: u32) -> Result<()> {
        let needed = match (weight, capacity) {
            (MAX, MAX) => Admission::Exclusive,
            (1, MAX) => Admission::ReadWrite,
            _ if self.admission == Admission::Permits => return Ok(()),
            _ => Admission::Weighted,
        };
        if needed > self.admission { Err(refusal::kind(needed, self.admission)) } else { Ok(()) }
    }

    /// Refuses a minimum hold that the store cannot keep.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the longest minimum hold.
    pub fn keeps(&self, min_hold: Duration) -> Result<()> {
        if min_hold <= self.min_hold_max {
            return Ok(());
        }
        if self.min_hold_max.is_zero() {
            return Err(refusal::no_min_hold());
        }
        Err(refusal::out_of_range("min_hold", min_hold, Duration::ZERO, self.min_hold_max))
    }

    /// Refuses a session whose durations are out of this store's range, for
    /// [`Store::open`](super::Store::open).
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the range of the duration.
    pub fn check(&self, session: &SessionSpec) -> Result<()> {
        let Self { ttl_min, ttl_max, lock_delay_max, .. } = self;
        if session.ttl < *ttl_min || session.ttl > *ttl_max {
            return Err(refusal::out_of_range("ttl", session.ttl, *ttl_min, *ttl_max));
        }
        if session.lock_delay > *lock_delay_max {
            return Err(refusal::out_of_range(
                "lock-delay",
                session.lock_delay,
                Duration::ZERO,
                *lock_delay_max,
            ));
        }
        Ok(())
    }
}
