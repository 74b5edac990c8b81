//! Those who take part in a history: the library's own clients, or anything that can be asked for a lock.

use std::time::Duration;

use async_trait::async_trait;

use crate::store::MAX;
use crate::{Acquire, FencingToken, Guard, Keeper, LockName, NotConverted, Owner, Result};

/// The kind of lock that a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// One holder.
    Mutex,
    /// Readers together, a writer alone, and conversions between them.
    RwLock,
    /// So many permits.
    Semaphore(u32),
    /// A semaphore whose size changes while it is in use: each claim knows one of these numbers of permits.
    Resized(&'static [u32]),
    /// One owner, as often as it likes.
    ReentrantMutex,
}

impl Kind {
    /// What there is of it; of a semaphore that is resized, at most.
    pub fn capacity(self) -> u32 {
        match self {
            Self::Mutex | Self::RwLock | Self::ReentrantMutex => MAX,
            Self::Semaphore(permits) => permits,
            Self::Resized(sizes) => sizes.iter().copied().max().unwrap_or(MAX),
        }
    }
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// How much of the lock.
    pub weight: u32,
    /// How much there is, as who asks knows.
    pub of: u32,
    /// How long to stand in line: zero is a try, `None` as long as it takes.
    pub wait: Option<Duration>,
}

/// Somebody who can be asked for a lock.
#[async_trait]
pub trait Contestant: Send + Sync {
    /// Asks for it; `None` if it was not to be had in time.
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>>;
}

/// A lock that somebody has.
#[async_trait]
pub trait Held: Send + Sync {
    /// Its number.
    fn token(&self) -> FencingToken;

    /// How long its holder may go on believing in it; `None` once it is lost.
    fn believed(&self) -> Option<Duration>;

    /// Gives it back; an error of the kind [`Lost`](crate::ErrorKind::Lost) when it was lost before.
    async fn release(self: Box<Self>) -> Result<()>;

    /// Shares it from now on. The lock comes back either way.
    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>);

    /// Has it alone from now on, if nobody else has it; and whether it was done.
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
    /// Who takes the lock of this name and kind through this keeper.
    pub fn new(keeper: &Keeper, name: &LockName, kind: Kind) -> Self {
        Self { keeper: keeper.clone(), name: name.clone(), kind, owner: Owner::new() }
    }

    fn waiting(&self, weight: u32, of: u32) -> Result<Acquire<Guard>> {
        let name = &self.name;
        Ok(match self.kind {
            Kind::Mutex => self.keeper.mutex(name)?.lock(),
            Kind::RwLock if weight == MAX => self.keeper.rw_lock(name)?.write(),
            Kind::RwLock => self.keeper.rw_lock(name)?.read(),
            Kind::Semaphore(_) | Kind::Resized(_) => self.keeper.semaphore(name, of)?.acquire_many(weight),
            Kind::ReentrantMutex => self.keeper.reentrant_mutex(name)?.lock(&self.owner),
        })
    }

    fn trying(&self, weight: u32, of: u32) -> Result<Acquire<Option<Guard>>> {
        let name = &self.name;
        Ok(match self.kind {
            Kind::Mutex => self.keeper.mutex(name)?.try_lock(),
            Kind::RwLock if weight == MAX => self.keeper.rw_lock(name)?.try_write(),
            Kind::RwLock => self.keeper.rw_lock(name)?.try_read(),
            Kind::Semaphore(_) | Kind::Resized(_) => self.keeper.semaphore(name, of)?.try_acquire_many(weight),
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
