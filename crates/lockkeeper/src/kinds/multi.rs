//! The multi-lock: several locks as one, all or nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::named::{Named, durations};
use super::semaphore::{check_permits, check_share};
use crate::acquire::{Acquire, Part};
use crate::engine::Engine;
use crate::store::MAX;
use crate::{Error, LockName, MultiGuard, Result};

/// Several locks as one, from [`Keeper::multi`](crate::Keeper::multi) or
/// [`Keeper::multi_lock`](crate::Keeper::multi_lock).
///
/// The attempt acquires the locks one after the other, in the order of the bytes of their names. It
/// gives them back if it cannot get one of them. If it loses a lock while it waits for another, it
/// acquires that lock again. A `MultiLock` is cheap to clone. It holds nothing by itself.
///
/// Two multi-locks never wait for each other. A separate attempt by a holder of another lock has no
/// such promise, so acquire all locks that the work needs in one multi-lock.
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
    lock: Named,
    weight: u32,
    capacity: u32,
    also: Vec<Part>,
}

impl MultiLock {
    /// Waits in the queue of one lock after the other, without a limit unless [`Acquire::wait`] or
    /// the keeper sets one for all of them together. A fixed lease and `max_hold` begin when the
    /// attempt holds all locks.
    pub fn lock(&self) -> Acquire<MultiGuard> {
        self.lock.acquire(self.weight, self.capacity).and(self.also.clone())
    }

    /// Takes the locks if all are free, and returns `None` if one is not.
    pub fn try_lock(&self) -> Acquire<Option<MultiGuard>> {
        self.lock.try_acquire(self.weight, self.capacity).and(self.also.clone())
    }

    /// The names as they were typed, in the order in which an attempt acquires the locks.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        std::iter::once(&self.lock.name).chain(self.also.iter().map(|part| &part.name))
    }
}

durations!(MultiLock);

/// The builder of a multi-lock, with the names and modes of its locks, from
/// [`Keeper::multi`](crate::Keeper::multi).
///
/// A name that occurs twice counts once, in the stronger mode: exclusive rather than shared, and
/// the larger number of permits.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let report = keeper.multi().read("prices").lock("report").permits("connections", 2, 10).build()?;
/// let guard = report.lock().await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until it is built"]
pub struct MultiBuilder {
    engine: Arc<Engine>,
    /// Weight and capacity of each lock, in the order of acquisition.
    parts: BTreeMap<LockName, (u32, u32)>,
    problem: Option<Error>,
}

impl MultiBuilder {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine), parts: BTreeMap::new(), problem: None }
    }

    /// Adds an exclusive lock: a mutex, or a lock to write.
    pub fn lock<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.and(name, MAX, MAX)
    }

    /// Adds a shared lock: a lock to read.
    pub fn read<N>(self, name: N) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.and(name, 1, MAX)
    }

    /// Adds this number of permits of a semaphore that has `of` permits.
    pub fn permits<N>(mut self, name: N, permits: u32, of: u32) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let added = self.engine.settings.checked_name(name).and_then(|name| {
            check_permits(&name, of)?;
            check_share(&name, permits, of)?;
            self.add(name, permits, of)
        });
        self.unless(added)
    }

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for no names at all, for an impossible name or number
    /// of permits, and for a name that occurs as two kinds of locks.
    pub fn build(self) -> Result<MultiLock> {
        let Self { engine, parts, problem } = self;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let mut parts =
            parts.into_iter().map(|(name, (weight, capacity))| Part { name, weight, capacity });
        let Part { name, weight, capacity } = parts.next().ok_or_else(|| {
            Error::invalid("a multi-lock of no names would lock nothing")
                .with_remedy("at least one name")
        })?;
        Ok(MultiLock { lock: Named::new(&engine, name), weight, capacity, also: parts.collect() })
    }

    /// Adds a lock. The first problem is reported.
    fn and<N>(mut self, name: N, weight: u32, capacity: u32) -> Self
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let added = self
            .engine
            .settings
            .checked_name(name)
            .and_then(|name| self.add(name, weight, capacity));
        self.unless(added)
    }

    fn unless(mut self, added: Result<()>) -> Self {
        if let Err(problem) = added {
            self.problem.get_or_insert(problem);
        }
        self
    }

    fn add(&mut self, name: LockName, weight: u32, capacity: u32) -> Result<()> {
        let (strongest, of) = *self.parts.get(&name).unwrap_or(&(weight, capacity));
        if of != capacity {
            let problem =
                Error::invalid("it is given as two kinds of locks, or as semaphores of two sizes");
            return Err(problem.with_remedy("each name as one kind").about(name));
        }
        self.parts.insert(name, (strongest.max(weight), capacity));
        Ok(())
    }
}

impl fmt::Debug for MultiBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiBuilder").field("parts", &self.parts).finish_non_exhaustive()
    }
}
