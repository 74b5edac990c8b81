//! The reentrant mutex: one owner at a time, as often as it likes.

use std::sync::Arc;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Guard, LockName, Owner};

/// A mutex that its owner can lock again while it holds it.
///
/// Ownership is explicit: an [`Owner`] is handed down the call chain. The first attempt of an owner stands in line as
/// any other does; further ones, while a guard of it lives, ask no store and take no time. The lock is released with
/// the last of the guards. They share one claim and one token, and are lost together: while a guard of a lost claim
/// lives, its owner gets no other ([`Lost`](crate::ErrorKind::Lost)).
///
/// What an attempt asks for (a fixed lease, `max_hold`, a reason) goes for the first; a re-entry joins what is held.
/// An owner is known in one process and to one keeper. To others it is the [mutex](crate::Mutex) of its name.
///
/// Two tasks that share an owner do not exclude each other. To have one owner per task, make one per task.
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

    /// Waits in line for the lock, for ever unless [`Acquire::wait`] says otherwise; at once when this owner holds it.
    pub fn lock(&self, owner: &Owner) -> Acquire<Guard> {
        self.of(owner, self.lock.acquire(MAX, MAX))
    }

    /// Takes the lock if it is free or held by this owner, and answers `None` otherwise; also while another attempt of
    /// this owner waits for it.
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
