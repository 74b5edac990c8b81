//! The reentrant mutex: one owner at a time, any number of times.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName, Owner};

/// A mutex that its owner can lock again while it holds it.
///
/// Ownership is explicit: the program passes an [`Owner`] down the call chain. The first attempt of
/// an owner waits in the queue like any other. While the owner has a guard, its further attempts
/// succeed at once, without the store. The lock is released with the last guard. The guards share
/// one claim and one token, and are lost together. While the owner keeps a guard of a lost claim,
/// its attempts fail with [`Lost`](crate::ErrorKind::Lost).
///
/// The options of an attempt (a fixed lease, `max_hold`, a reason) apply to the first guard, and a
/// re-entry joins what is held. An owner counts in one process and for one keeper. For all others
/// the lock is the [mutex](crate::Mutex) of its name.
///
/// Two tasks that share an owner do not exclude each other. Make one owner for each task to exclude
/// them.
///
/// ```
/// use lockkeeper::Owner;
///
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let ledger = keeper.reentrant_mutex("ledger")?;
/// let me = Owner::new();
/// let outer = ledger.lock(&me).await?;
/// let inner = ledger.lock(&me).await?;
/// assert_eq!(inner.token(), outer.token());
/// outer.release().await?;
/// assert!(ledger.try_lock(&Owner::new()).await?.is_none());
/// inner.release().await?;
/// assert!(ledger.try_lock(&Owner::new()).await?.is_some());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    lock: Named,
}

impl ReentrantMutex {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lock: Named::new(engine, name) }
    }

    /// Waits in the queue for the lock, without a limit unless [`Acquire::wait`] or the keeper sets
    /// one. An owner that holds the lock gets it at once.
    pub fn lock(&self, owner: &Owner) -> Acquire<Guard> {
        self.of(owner, self.lock.acquire(MAX, MAX))
    }

    /// Takes the lock if it is free or held by this owner, and returns `None` otherwise. It also
    /// returns `None` while another attempt of this owner waits for the lock.
    pub fn try_lock(&self, owner: &Owner) -> Acquire<Option<Guard>> {
        self.of(owner, self.lock.try_acquire(MAX, MAX))
    }

    fn of<G: crate::Acquired>(&self, owner: &Owner, attempt: Acquire<G>) -> Acquire<G> {
        let mut attempt = attempt.owner(owner);
        attempt.request.reenters = true;
        attempt
    }
}

settings!(ReentrantMutex);
