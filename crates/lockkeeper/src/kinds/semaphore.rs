//! The semaphore: a number of permits, and their holders.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::{Error, Guard, LockName, Result};

/// The most permits that a semaphore may have.
const PERMITS_MAX: u32 = 1 << 31;

/// A number of permits that holders take and give back.
///
/// First come, first served: an attempt for few permits does not overtake an earlier attempt for
/// many, even if its permits are free. Permits have a lease like every lock, so the permits of a
/// holder that vanished become free when its lease expires.
///
/// The number of permits may change while the semaphore is in use, up or down: a deploy from 3 to 5
/// permits, or from 5 to 3, needs no stop. Each claim names the number that it knows. The store
/// grants an attempt when the permits of all claims before it and its own permits are no more than
/// the *smallest* number that these claims and the attempt name. So no holder shares the semaphore
/// with more permits than it names, and the store takes no permit back. A claim with a small number
/// waits until enough permits are free, and the claims behind it wait too.
/// [`inspect`](crate::Keeper::inspect) shows the number that counts.
///
/// A mutex or read-write lock of the same name is another kind of lock. While one kind is in use,
/// the store refuses an attempt on the other kind ([`Mismatch`](crate::ErrorKind::Mismatch)).
///
/// A token does not show a resource whether its permit is still held, so a
/// [`FenceGate`](crate::fence::FenceGate) refuses permits.
/// [`check_sequencer`](crate::Keeper::check_sequencer) asks the store.
///
/// A `Semaphore` is cheap to clone. It takes no permit by itself.
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

    /// The number of permits of the semaphore.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Waits in the queue for a permit, without a limit unless [`Acquire::wait`] or the keeper sets
    /// one.
    pub fn acquire(&self) -> Acquire<Guard> {
        self.acquire_many(1)
    }

    /// Takes a permit if one is free and the queue is empty, and returns `None` otherwise. The
    /// attempt joins the queue only with [`Acquire::wait`].
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.try_acquire_many(1)
    }

    /// Waits in the queue for this number of permits at once. The permits are one lock with one
    /// token. [`Guard::release`] gives all of them back, and [`Guard::release_permits`] some of
    /// them.
    ///
    /// The attempt returns [`Invalid`](crate::ErrorKind::Invalid) for no permits, and for more than
    /// the semaphore has.
    pub fn acquire_many(&self, permits: u32) -> Acquire<Guard> {
        self.checked(permits, self.lock.acquire(permits, self.permits))
    }

    /// Takes this number of permits at once if they are free and the queue is empty, and returns
    /// `None` otherwise.
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
