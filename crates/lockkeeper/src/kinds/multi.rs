//! The multi-lock: several mutexes as one, all or nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Acquire, Part};
use crate::engine::{Engine, Request};
use crate::finish;
use crate::guard::scoped;
use crate::store::{MAX, SessionSpec};
use crate::{Error, Guard, LockName, Lost, Mode, Release, Result};

/// Several mutexes as one lock, from [`Keeper::multi_lock`](crate::Keeper::multi_lock).
///
/// They are acquired one after the other, in the order of the bytes of their names, and given back if one cannot be
/// had. What is lost while others are waited for is acquired again. A handle is cheap to clone and holds nothing.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let transfer = keeper.multi_lock(["account/7", "account/3"])?;
/// let guard = transfer.lock().await?;
/// for account in guard.guards() {
///     println!("{}: fencing token {}", account.name(), account.token());
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    engine: Arc<Engine>,
    first: LockName,
    also: Vec<Part>,
    ttl: Duration,
    lock_delay: Duration,
}

impl MultiLock {
    /// # Errors
    /// `Invalid` for no names.
    pub(crate) fn new(engine: &Arc<Engine>, names: BTreeSet<LockName>) -> Result<Self> {
        let mut names = names.into_iter();
        let first = names.next().ok_or_else(|| {
            Error::invalid("a multi-lock of no names would lock nothing").with_remedy("at least one name")
        })?;
        let also = names.map(|name| Part { name, weight: MAX, capacity: MAX }).collect();
        let (ttl, lock_delay) = (engine.settings.ttl, engine.settings.lock_delay);
        Ok(Self { engine: Arc::clone(engine), first, also, ttl, lock_delay })
    }

    /// Waits in line for one after the other, for ever unless [`Acquire::wait`] says otherwise: that is the time for
    /// all of them. A fixed lease and `max_hold` begin when all are held.
    pub fn lock(&self) -> Acquire<MultiGuard> {
        Acquire::new(&self.engine, self.request(true), Mode::Exclusive).and(self.also.clone())
    }

    /// Takes them if all are free, and answers `None` if one is not.
    pub fn try_lock(&self) -> Acquire<Option<MultiGuard>> {
        Acquire::new(&self.engine, self.request(false), Mode::Exclusive).and(self.also.clone())
    }

    /// How long each of them stays taken, at most, when the holder vanishes: as [`Mutex::ttl`](crate::Mutex::ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How much longer than the ttl the store keeps them from others: as
    /// [`Mutex::lock_delay`](crate::Mutex::lock_delay).
    #[must_use]
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// The names, with the keeper's prefix, in the order in which they are acquired.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        std::iter::once(&self.first).chain(self.also.iter().map(|part| &part.name))
    }

    fn request(&self, queue: bool) -> Request {
        Request {
            name: self.first.clone(),
            weight: MAX,
            capacity: MAX,
            spec: SessionSpec::new(self.ttl, self.lock_delay),
            queue,
            unfair: false,
            fixed: false,
            max_hold: None,
            owner: None,
            reason: None,
        }
    }
}

/// The locks of a multi-lock, held together: lost as soon as one of them is lost. Dropping it releases them in the
/// background.
#[must_use = "if unused, the locks are released at once"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    /// Never empty.
    guards: Vec<Guard>,
}

impl MultiGuard {
    pub(crate) fn new(first: Guard, also: Vec<Guard>) -> Self {
        let mut guards = Vec::with_capacity(also.len() + 1);
        guards.push(first);
        guards.extend(also);
        Self { guards }
    }

    /// The guard of each lock, in the order of the bytes of their names: for its token and its sequencer.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// For how long the holder may believe in all of them; zero once one is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::ZERO)
    }

    /// Whether all are still held, as far as this process can know: see [`Guard::check`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), naming one that is lost.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// A future that completes with the reason when the first of them is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        Lost::of(self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// Runs `f` for as long as all of them are held, and drops it when one is lost: see [`Guard::scope`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when one is lost before `f` completes, or while it does.
    ///
    /// # Cancel safety
    /// Dropping it drops `f`; the locks stay held.
    pub async fn scope<F: Future>(&self, f: F) -> Result<F::Output> {
        scoped(|| self.check(), self.lost(), f).await
    }

    /// Releases all of them, and awaits the store's word for it: [`AlreadyLost`](Release::AlreadyLost) if one of them
    /// was lost before.
    ///
    /// # Errors
    /// As [`Guard::release`]: the first error. The others are released all the same.
    ///
    /// # Cancel safety
    /// Once polled, the releases go on in the background when this is dropped.
    pub async fn release(self) -> Result<Release> {
        let mut outcome = Release::Done;
        for released in finish::all(self.guards.into_iter().map(Guard::release)).await {
            if released? == Release::AlreadyLost {
                outcome = Release::AlreadyLost;
            }
        }
        Ok(outcome)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish()
    }
}
