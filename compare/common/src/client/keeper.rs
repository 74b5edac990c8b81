//! lockkeeper, by its public API.

use anyhow::Result;
use lockkeeper::{Guard, Keeper, Mutex, RwLock};

use super::tasks::{Client, Lock};

/// Mutexes.
#[derive(Debug)]
pub struct Mutexes(pub Keeper);

impl Mutexes {
    /// Connects to the store that the URL names.
    ///
    /// # Errors
    ///
    /// The store cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self(lockkeeper::connect(url).await?))
    }
}

impl Client for Mutexes {
    type Lock = Mutex;

    async fn lock(&self, name: &str, _nth: usize) -> Result<Mutex> {
        Ok(self.0.mutex(name)?)
    }
}

impl Lock for Mutex {
    type Guard = Guard;

    async fn acquire(&self) -> Result<Guard> {
        Ok(self.lock().await?)
    }

    async fn release(&self, guard: Guard, awaited: bool) -> Result<()> {
        release(guard, awaited).await
    }

    fn is_lost(&self, guard: &Guard) -> bool {
        guard.check().is_err()
    }
}

/// Read locks of a read-write lock.
#[derive(Debug)]
pub struct Readers(Keeper);

impl Readers {
    /// Connects to the store that the URL names.
    ///
    /// # Errors
    ///
    /// The store cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self(lockkeeper::connect(url).await?))
    }
}

impl Client for Readers {
    type Lock = RwLock;
    const IS_SHARED: bool = true;

    async fn lock(&self, name: &str, _nth: usize) -> Result<RwLock> {
        Ok(self.0.rw_lock(name)?)
    }
}

impl Lock for RwLock {
    type Guard = Guard;

    async fn acquire(&self) -> Result<Guard> {
        Ok(self.read().await?)
    }

    async fn release(&self, guard: Guard, awaited: bool) -> Result<()> {
        release(guard, awaited).await
    }

    fn is_lost(&self, guard: &Guard) -> bool {
        guard.check().is_err()
    }
}

async fn release(guard: Guard, awaited: bool) -> Result<()> {
    if awaited {
        guard.release().await?;
    }
    // Otherwise the guard is dropped here, and its release is sent with the next request.
    Ok(())
}
