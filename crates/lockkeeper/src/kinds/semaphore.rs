//! The semaphore: so many permits, and who has some of them.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::{Error, Guard, LockName, Result};

/// The most permits that a semaphore may have.
const PERMITS_MAX: u32 = 1 << 31;

/// A number of permits that holders take and give back.
///
/// First come, first served: who wants many permits is not overtaken by those who want few, even if those would fit.
/// Permits are leased and renewed as every lock is: those of a holder that vanished come back by themselves.
///
/// The number of permits may change while the semaphore is in use, up or down: a deploy from 3 to 5 permits, or from 5
/// to 3, needs no stop. An attempt is granted when all permits that are held or wanted before it, with its own, are no
/// more than the *smallest* number that any of these claims knows, its own included. So nobody ever holds a permit
/// beside more others than it knows of, and nothing that is held is taken back. A claim with a small number waits until
/// the others are few enough; those behind it wait too. [`inspect`](crate::Keeper::inspect) shows the number that counts.
///
/// A mutex or read-write lock of the same name is another kind of lock: while somebody uses one kind, an attempt on the
/// other is refused ([`Mismatch`](crate::ErrorKind::Mismatch)).
///
/// No resource can tell from a token whether it is of a permit that is still held, so a
/// [`FenceGate`](crate::fence::FenceGate) refuses permits. [`check_sequencer`](crate::Keeper::check_sequencer) asks the
/// store.
///
/// A handle is cheap to clone and holds nothing.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let licences = keeper.semaphore("licences", 5)?;
/// let one = licences.acquire().await?;
/// let four = licences.acquire_many(4).await?;
/// assert!(licences.try_acquire().await?.is_none());
/// one.release().await?;
/// # four.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    lock: Named,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName, permits: u32) -> Result<Self> {
        check_permits(&name, permits)?;
        Ok(Self { lock: Named::new(engine, name), permits })
    }

    /// How many permits there are.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Waits in line for a permit, for ever unless [`Acquire::wait`] says otherwise.
    pub fn acquire(&self) -> Acquire<Guard> {
        self.acquire_many(1)
    }

    /// Takes a permit if one is free and nobody waits, and answers `None` otherwise. Never enters the line unless
    /// [`Acquire::wait`] says so.
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.try_acquire_many(1)
    }

    /// Waits in line for so many permits at once. They are one lock, with one token, and are released together.
    ///
    /// None, and more than there are, are returned as [`Invalid`](crate::ErrorKind::Invalid) by the attempt.
    pub fn acquire_many(&self, permits: u32) -> Acquire<Guard> {
        self.checked(permits, self.lock.acquire(permits, self.permits))
    }

    /// Takes so many permits at once if they are free and nobody waits, and answers `None` otherwise.
    pub fn try_acquire_many(&self, permits: u32) -> Acquire<Option<Guard>> {
        self.checked(permits, self.lock.try_acquire(permits, self.permits))
    }

    fn checked<G: crate::Acquired>(&self, permits: u32, mut attempt: Acquire<G>) -> Acquire<G> {
        if let Err(problem) = check_share(&self.lock.name, permits, self.permits) {
            attempt.refuse(problem);
        }
        attempt
    }
}

settings!(Semaphore);

pub(super) fn check_permits(name: &LockName, permits: u32) -> Result<()> {
    if (1..=PERMITS_MAX).contains(&permits) {
        return Ok(());
    }
    let problem = Error::invalid(format!("a semaphore cannot have {permits} permits"));
    Err(problem.with_remedy(format!("1 to {PERMITS_MAX}")).about(name.clone()))
}

pub(super) fn check_share(name: &LockName, permits: u32, of: u32) -> Result<()> {
    if (1..=of).contains(&permits) {
        return Ok(());
    }
    let problem = Error::invalid(format!("{permits} of {of} permits cannot be acquired"));
    Err(problem.with_remedy(format!("1 to {of}")).about(name.clone()))
}
