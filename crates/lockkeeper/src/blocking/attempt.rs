//! One attempt to acquire a lock, with options of its own.

use std::time::Duration;

use super::guard::Guard;
use super::mirror::{Mirrored, mirror};
use super::park::wait;
use crate::acquire::Acquire;
use crate::{Handle, Owner, Result};

/// An attempt to acquire a lock `L` with options of its own. Set the options first, then call a
/// method that acquires.
///
/// ```
/// use std::time::Duration;
///
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let deploy = keeper.mutex("deploy/web")?;
/// let guard = deploy.attempt().wait(Duration::from_secs(900)).reason("build 4711").lock()?;
/// # guard.release()?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
///
/// # Errors
/// The errors of the async [`Acquire`](crate::Acquire), for every way to acquire.
#[derive(Debug)]
#[must_use = "an attempt does nothing until a method acquires the lock"]
pub struct Attempt<'a, L, G: Acquired = Guard> {
    pub(super) lock: &'a L,
    /// Has only the options. The method that acquires makes the request, and takes the options from
    /// here.
    inner: Acquire<G::Async>,
}

impl<'a, L> Attempt<'a, L> {
    /// An attempt with the defaults of a `try_` method of the lock, which does not wait.
    pub(super) fn new(lock: &'a L, tries: Acquire<impl Sized>) -> Self {
        Self { lock, inner: tries.resulting() }
    }

    /// The same attempt, on a lock that is detached.
    pub(super) fn for_life(self, lease: Duration) -> Attempt<'a, L, Handle> {
        Attempt { lock: self.lock, inner: self.inner.detached(lease) }
    }

    /// Waits for an attempt of any result.
    pub(super) fn wrapped<R: crate::Acquired + Mirrored>(
        self,
        asked: Acquire<R>,
    ) -> Result<R::Here> {
        wait(asked.with_options_of(self.inner))?.here()
    }
}

impl<L, G: Acquired> Attempt<'_, L, G> {
    /// Waits for an attempt that results in one guard, or in the handle that is made of it.
    pub(super) fn held(self, asked: Acquire<crate::Guard>) -> Result<G> {
        wait(asked.resulting::<G::Async>().with_options_of(self.inner))?.map(G::of)
    }

    mirror! { Acquire:
        /// The longest time in the queue; zero is a single try. Without this setting, `lock()` and
        /// its like wait for the keeper's [`default_wait`](super::KeeperBuilder::default_wait) (by
        /// default without a limit), and a `try_` method does not wait.
        set fn wait(self, d: Duration) -> Self;
        /// A fixed lease in place of the lock's ttl, never renewed after the grant.
        set fn lease(self, d: Duration) -> Self;
        /// The owner of the attempt, by which the engine detects a wait for a guard of the same
        /// owner: see [`Owner`].
        set fn owner(self, owner: &Owner) -> Self;
        /// The longest time to hold the lock, however often the keeper renews it. The default is
        /// the keeper's limit, if it has one.
        set fn max_hold(self, d: Duration) -> Self;
        /// The minimum hold: how long the store keeps the lock from all others, whatever happens to
        /// the holder.
        set fn min_hold(self, d: Duration) -> Self;
        /// Waits without a place in the queue.
        set fn unfair(self) -> Self;
        /// The reason for the attempt, at most 1024 bytes. `inspect` shows it to people.
        set fn reason(self, reason: impl Into<String>) -> Self;
    }
}

/// The result of an attempt on one lock: a [`Guard`], or the [`Handle`] of a detached lock.
pub trait Acquired: sealed::Sealed {}

mod sealed {
    use super::{Guard, Handle, Mirrored};

    pub trait Sealed: Sized {
        #[doc(hidden)]
        type Async: crate::Acquired;

        #[doc(hidden)]
        fn of(acquired: Self::Async) -> Self;
    }

    impl Sealed for Guard {
        type Async = crate::Guard;

        fn of(acquired: crate::Guard) -> Self {
            acquired.here()
        }
    }

    impl Sealed for Handle {
        type Async = Self;

        fn of(acquired: Self) -> Self {
            acquired
        }
    }
}

impl Acquired for Guard {}
impl Acquired for Handle {}
