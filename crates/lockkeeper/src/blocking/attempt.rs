//! One attempt to acquire a lock, with options of its own.

use std::marker::PhantomData;
use std::time::Duration;

use super::guard::Guard;
use super::park::wait;
use crate::acquire::Acquire;
use crate::{Handle, Owner, Result};

/// An attempt to acquire a lock `L` with options of its own. Set the options first, then call a method that acquires.
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
/// Those of the async [`Acquire`](crate::Acquire), for every way to acquire.
#[derive(Clone, Debug)]
#[must_use = "an attempt does nothing until a method acquires the lock"]
pub struct Attempt<'a, L, G = Guard> {
    pub(super) lock: &'a L,
    settings: Settings,
    result: PhantomData<fn() -> G>,
}

/// What is handed on to the async attempt.
#[derive(Clone, Debug, Default)]
struct Settings {
    wait: Option<Duration>,
    lease: Option<Duration>,
    owner: Option<Owner>,
    max_hold: Option<Duration>,
    min_hold: Duration,
    unfair: bool,
    reason: Option<String>,
    /// Of a detached lock.
    ttl: Duration,
}

impl Settings {
    fn of<G: crate::Acquired>(self, mut acquire: Acquire<G>) -> Acquire<G> {
        if let Some(wait) = self.wait {
            acquire = acquire.wait(wait);
        }
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(owner) = &self.owner {
            acquire = acquire.owner(owner);
        }
        if let Some(max_hold) = self.max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        acquire = acquire.min_hold(self.min_hold);
        if self.unfair {
            acquire = acquire.unfair();
        }
        match self.reason {
            Some(reason) => acquire.reason(reason),
            None => acquire,
        }
    }
}

impl<'a, L> Attempt<'a, L> {
    pub(super) fn on(lock: &'a L) -> Self {
        Self { lock, settings: Settings::default(), result: PhantomData }
    }

    /// The same attempt, on a lock that is detached.
    pub(super) fn for_life(self, ttl: Duration) -> Attempt<'a, L, Handle> {
        let settings = Settings { ttl, ..self.settings };
        Attempt { lock: self.lock, settings, result: PhantomData }
    }

    /// Waits for an attempt of any result.
    pub(super) fn run<G: crate::Acquired>(self, acquire: Acquire<G>) -> Result<G> {
        wait(self.settings.of(acquire))?
    }

    /// Waits for an attempt that may not result in a guard.
    pub(super) fn perhaps(self, acquire: Acquire<Option<crate::Guard>>) -> Result<Option<Guard>> {
        Ok(self.run(acquire)?.map(Guard::new))
    }
}

impl<L, G> Attempt<'_, L, G> {
    /// The longest time in the queue; zero is a single try. Without this setting, `lock()` and its like wait for the
    /// keeper's [`default_wait`](super::KeeperBuilder::default_wait) (by default without a limit), and a `try_` method
    /// does not wait. See [`Acquire::wait`](crate::Acquire::wait).
    pub fn wait(mut self, d: Duration) -> Self {
        self.settings.wait = Some(d);
        self
    }

    /// A fixed lease in place of the lock's ttl, never renewed after the grant: see
    /// [`Acquire::lease`](crate::Acquire::lease).
    pub fn lease(mut self, d: Duration) -> Self {
        self.settings.lease = Some(d);
        self
    }

    /// The owner of the attempt, by which the engine detects a wait for a guard of the same owner: see [`Owner`].
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.settings.owner = Some(owner.clone());
        self
    }

    /// The longest time to hold the lock, whatever its renewals. The default is the keeper's limit, if it has one. See
    /// [`Acquire::max_hold`](crate::Acquire::max_hold).
    pub fn max_hold(mut self, d: Duration) -> Self {
        self.settings.max_hold = Some(d);
        self
    }

    /// The minimum hold: how long the store keeps the lock from all others, whatever happens to the holder. See
    /// [`Acquire::min_hold`](crate::Acquire::min_hold).
    pub fn min_hold(mut self, d: Duration) -> Self {
        self.settings.min_hold = d;
        self
    }

    /// Waits without a place in the queue: see [`Acquire::unfair`](crate::Acquire::unfair).
    pub fn unfair(mut self) -> Self {
        self.settings.unfair = true;
        self
    }

    /// The reason for the attempt, at most 1024 bytes. `inspect` shows it to people.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.settings.reason = Some(reason.into());
        self
    }
}

impl<L, G: Acquired> Attempt<'_, L, G> {
    /// Waits for an attempt that results in one guard, or in the handle that is made of it.
    pub(super) fn hold(self, acquire: Acquire<crate::Guard>) -> Result<G> {
        let ttl = self.settings.ttl;
        G::of(self.settings.of(acquire), ttl)
    }
}

/// The result of an attempt on one lock: a [`Guard`], or the [`Handle`] of a detached lock.
pub trait Acquired: sealed::Sealed {}

mod sealed {
    use super::{Acquire, Duration, Guard, Handle, Result, wait};

    pub trait Sealed: Sized {
        #[doc(hidden)]
        fn of(acquire: Acquire<crate::Guard>, ttl: Duration) -> Result<Self>;
    }

    impl Sealed for Guard {
        fn of(acquire: Acquire<crate::Guard>, _: Duration) -> Result<Self> {
            wait(acquire)?.map(Self::new)
        }
    }

    impl Sealed for Handle {
        fn of(acquire: Acquire<crate::Guard>, ttl: Duration) -> Result<Self> {
            wait(acquire.detached(ttl))?
        }
    }
}

impl Acquired for Guard {}
impl Acquired for Handle {}
