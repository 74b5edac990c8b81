//! The participants of a history: clients of the library, or anything else that can acquire a lock.

use std::time::Duration;

use async_trait::async_trait;

use lockkeeper::store::MAX;
use lockkeeper::{Acquire, FencingToken, Guard, Keeper, LockName, NotConverted, Owner, Result};

/// The kind of lock that a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// One holder.
    Mutex,
    /// Readers together, a writer alone, and conversions between them.
    RwLock,
    /// A semaphore with this number of permits.
    Semaphore(u32),
    /// A semaphore whose size changes while it is in use: each claim names one of these numbers of
    /// permits.
    Resized(&'static [u32]),
    /// One owner, which may acquire the lock any number of times.
    ReentrantMutex,
}

impl Kind {
    /// The capacity of the lock. A semaphore that is resized has the largest of its capacities.
    pub fn capacity(self) -> u32 {
        match self {
            Self::Mutex | Self::RwLock | Self::ReentrantMutex => MAX,
            Self::Semaphore(permits) => permits,
            Self::Resized(sizes) => sizes.iter().copied().max().unwrap_or(MAX),
        }
    }
}

/// The request of a contestant.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The weight of the request.
    pub weight: u32,
    /// The capacity of the lock, as the contestant names it.
    pub of: u32,
    /// The longest wait in line. Zero is a single try; `None` waits without a limit.
    pub wait: Option<Duration>,
}

/// A client that can acquire a lock.
#[async_trait]
pub trait Contestant: Send + Sync {
    /// Acquires the lock; `None` if the wait was over first.
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>>;
}

/// A lock that a contestant holds.
#[async_trait]
pub trait Held: Send + Sync {
    /// The fencing token of the grant.
    fn token(&self) -> FencingToken;

    /// How long the guard still reports the lock as held. `None` once the lock is lost.
    fn believed(&self) -> Option<Duration>;

    /// Releases the lock. The error has the kind [`Lost`](lockkeeper::ErrorKind::Lost) if the lock
    /// was lost before.
    async fn release(self: Box<Self>) -> Result<()>;

    /// Makes the exclusive holder a shared one. The lock comes back in both cases.
    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>);

    /// Makes the shared holder the exclusive one, if no other claim holds the lock. Returns whether
    /// the holder is exclusive now.
    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)>;
}

/// A client of the library, with an owner of its own.
#[derive(Debug)]
pub struct LibraryClient {
    keeper: Keeper,
    name: LockName,
    kind: Kind,
    owner: Owner,
}

impl LibraryClient {
    /// A client that acquires the lock of this name and kind through this keeper.
    pub fn new(keeper: &Keeper, name: &LockName, kind: Kind) -> Self {
        Self { keeper: keeper.clone(), name: name.clone(), kind, owner: Owner::new() }
    }

    fn waiting(&self, weight: u32, of: u32) -> Result<Acquire<Guard>> {
        let name = &self.name;
        Ok(match self.kind {
            Kind::Mutex => self.keeper.mutex(name)?.lock(),
            Kind::RwLock if weight == MAX => self.keeper.rw_lock(name)?.write(),
            Kind::RwLock => self.keeper.rw_lock(name)?.read(),
            Kind::Semaphore(_) | Kind::Resized(_) => {
                self.keeper.semaphore(name, of)?.acquire_many(weight)
            }
            Kind::ReentrantMutex => self.keeper.reentrant_mutex(name)?.lock(&self.owner),
        })
    }

    fn trying(&self, weight: u32, of: u32) -> Result<Acquire<Option<Guard>>> {
        let name = &self.name;
        Ok(match self.kind {
            Kind::Mutex => self.keeper.mutex(name)?.try_lock(),
            Kind::RwLock if weight == MAX => self.keeper.rw_lock(name)?.try_write(),
            Kind::RwLock => self.keeper.rw_lock(name)?.try_read(),
            Kind::Semaphore(_) | Kind::Resized(_) => {
                self.keeper.semaphore(name, of)?.try_acquire_many(weight)
            }
            Kind::ReentrantMutex => self.keeper.reentrant_mutex(name)?.try_lock(&self.owner),
        })
    }
}

#[async_trait]
impl Contestant for LibraryClient {
    async fn acquire(&self, Ask { weight, of, wait }: Ask) -> Result<Option<Box<dyn Held>>> {
        let guard = match wait {
            None => Some(self.waiting(weight, of)?.await?),
            Some(Duration::ZERO) => self.trying(weight, of)?.await?,
            Some(wait) => self.trying(weight, of)?.wait(wait).await?,
        };
        Ok(guard.map(|guard| Box::new(guard) as Box<dyn Held>))
    }
}

#[async_trait]
impl Held for Guard {
    fn token(&self) -> FencingToken {
        Self::token(self)
    }

    fn believed(&self) -> Option<Duration> {
        self.check().ok().map(|()| self.remaining())
    }

    async fn release(self: Box<Self>) -> Result<()> {
        Self::release(*self).await
    }

    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>) {
        match Self::downgrade(*self).await {
            Ok(guard) => (Box::new(guard), Ok(())),
            Err(refused) => {
                let (guard, error) = refused.into_parts();
                (Box::new(guard.expect("a downgrade gives its guard back")), Err(error))
            }
        }
    }

    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)> {
        match self.try_upgrade().await.map_err(NotConverted::into_parts) {
            Ok(guard) => Ok((Box::new(guard), true)),
            Err((Some(guard), _)) => Ok((Box::new(guard), false)),
            Err((None, error)) => Err(error),
        }
    }
}
