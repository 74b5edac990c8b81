//! Registers on Redis: the optimistic counterpart of the locks.

use std::fmt;

use async_trait::async_trait;

use super::layout::{self, KeyLocation};
use super::servers::Said;
use super::{RedisStore, fault};
use crate::registers::{Register, Swap, Versioned, Write, check_key, check_write};
use crate::wire::Request;
use crate::{Error, Result};

/// Registers on a Redis server. A write is kept as long as the server keeps its data. Without
/// `appendfsync always` a crash loses the last writes, and a failover loses the writes that the
/// replica did not have. After such a loss the same version may come twice.
///
/// Compare and set are one script. A client that writes the key by other means is not kept out.
#[derive(Clone)]
pub struct RedisRegister(RedisStore);

impl RedisStore {
    /// The registers on these servers. They are separate from the locks: the same text may be the
    /// key of a register and the name of a lock.
    ///
    /// ```no_run
    /// use lockkeeper::RedisStore;
    /// use lockkeeper::optimistic::update;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// let register = RedisStore::standalone("10.0.0.5").connect().await?.register();
    /// let home = update(&register, "page/home", async |_| b"hello".to_vec()).await?;
    /// # drop(home);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self) -> RedisRegister {
        RedisRegister(self.clone())
    }
}

impl RedisRegister {
    async fn call(&self, location: &KeyLocation, request: Request) -> Result<Said> {
        self.0.check_process()?;
        let said = self.0.0.servers.send(location.slot, request).await;
        said.map_err(|error| fault::about(error, location.key()))
    }
}

impl fmt::Display for RedisRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RedisRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisRegister({self})")
    }
}

#[async_trait]
impl Register for RedisRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        check_key(key)?;
        let location = KeyLocation::of(key);
        let said =
            self.call(&location, layout::load(&location)).await.map_err(Error::without_effect)?;
        said.read(|value| layout::load_answer(&location, value)).map_err(Error::without_effect)
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        check_write(key, write)?;
        let location = KeyLocation::of(key);
        self.call(&location, layout::swap(&location, write))
            .await?
            .read(|value| layout::swap_answer(&location, value))
    }
}
