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

/// What a caller can do instead of what the store refuses, in the words of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where mutexes are.
    pub mutexes: &'static str,
    /// Where read-write locks are.
    pub read_write_locks: &'static str,
    /// Where semaphores are.
    pub semaphores: &'static str,
    /// How the store keeps a claim for longer.
    pub longer: Option<&'static str>,
}

impl Elsewhere {
    /// Another store has it.
    pub const STORE: Self = Self::at("another store");

    /// All kinds of locks are there.
    pub const fn at(place: &'static str) -> Self {
        Self { mutexes: place, read_write_locks: place, semaphores: place, longer: None }
    }
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
    /// The longest ttl and lock-delay together.
    pub keep_max: Duration,
    /// The longest minimum hold. Zero if the store keeps no claim after its release.
    pub min_hold_max: Duration,
    /// Whether a live claim can be changed: downgrade, proclaim.
    pub amend: bool,
    /// The largest number of waiters in one line.
    pub max_waiters: u32,
    /// The remedies for what the store refuses.
    pub elsewhere: Elsewhere,
    /// Whether a keeper may set an epoch, which stands above its tokens. It may not where clients
    /// of another library take tokens too.
    pub epochs: bool,
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
            keep_max: Duration::MAX,
            min_hold_max: Duration::from_secs(365 * 24 * 3600),
            amend: true,
            max_waiters: 100_000,
            elsewhere: Elsewhere::STORE,
            epochs: true,
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
        match needed > self.admission {
            true => Err(refusal::kind(needed, self.admission, &self.elsewhere)),
            false => Ok(()),
        }
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
        let Self { ttl_min, ttl_max, lock_delay_max, keep_max, .. } = self;
        let SessionSpec { ttl, lock_delay, .. } = *session;
        let refused = if ttl < *ttl_min || ttl > *ttl_max {
            refusal::out_of_range("ttl", ttl, *ttl_min, *ttl_max)
        } else if lock_delay > *lock_delay_max {
            refusal::out_of_range("lock-delay", lock_delay, Duration::ZERO, *lock_delay_max)
        } else if ttl.saturating_add(lock_delay) > *keep_max {
            refusal::kept_too_long(ttl, lock_delay, *keep_max)
        } else {
            return Ok(());
        };
        let Some(longer) = self.elsewhere.longer.filter(|_| ttl >= *ttl_min) else {
            return Err(refused);
        };
        let smaller = refused.remedy().unwrap_or_default().to_owned();
        Err(refused.with_remedy(format!("{smaller}; or {longer}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn refused(can: &Capabilities, ttl: Duration, lock_delay: Duration) -> String {
        can.check(&SessionSpec::new(ttl, lock_delay)).unwrap_err().to_string()
    }

    #[test]
    fn a_kind_that_the_store_lacks_is_refused_with_where_it_is() {
        let elsewhere = Elsewhere { semaphores: "layout=s", ..Elsewhere::STORE };
        let rw =
            Capabilities { admission: Admission::ReadWrite, elsewhere, ..Capabilities::full() };
        assert!(rw.admits(MAX, MAX).is_ok() && rw.admits(1, MAX).is_ok());
        assert_eq!(
            rw.admits(1, 5).unwrap_err().to_string(),
            "this store keeps mutexes and read-write locks only, no semaphores. Try: an exclusive \
             lock, or layout=s"
        );
        let permits = Capabilities { admission: Admission::Permits, ..Capabilities::full() };
        assert_eq!(
            permits.admits(MAX, MAX).unwrap_err().to_string(),
            "this store keeps semaphores only, no mutexes. Try: a semaphore, or another store"
        );
    }

    #[test]
    fn a_ttl_and_a_lock_delay_that_are_too_long_together_are_both_named() {
        let longer = Some("a longer max-keep");
        let elsewhere = Elsewhere { longer, ..Elsewhere::STORE };
        let can = Capabilities {
            ttl_max: 30 * SECOND,
            keep_max: 30 * SECOND,
            elsewhere,
            ..Capabilities::full()
        };
        assert!(can.check(&SessionSpec::new(20 * SECOND, 10 * SECOND)).is_ok());
        assert_eq!(
            refused(&can, 20 * SECOND, 11 * SECOND),
            "this store cannot keep a ttl of 20s with a lock-delay of 11s. Try: a shorter ttl or \
             lock-delay, at most 30s together; or a longer max-keep"
        );
        assert_eq!(
            refused(&can, 31 * SECOND, Duration::ZERO),
            "this store cannot keep a ttl of 31s. Try: 100ms to 30s; or a longer max-keep"
        );
        assert_eq!(
            refused(&can, SECOND / 100, Duration::ZERO),
            "this store cannot keep a ttl of 10ms. Try: 100ms to 30s"
        );
    }
}
