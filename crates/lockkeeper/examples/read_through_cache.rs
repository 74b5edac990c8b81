//! Twenty readers miss the cache at the same moment, and only one of them asks the slow source
//! behind it.
//!
//! When a popular value leaves a cache, all its readers go to the source together. This "dogpile"
//! makes a slow source slower. With a lock for each key, one reader goes to the source. The other
//! readers wait for the lock, and then look into the cache again.
//!
//! ```sh
//! cargo run -p lockkeeper --example read_through_cache
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper::{Keeper, MemoryStore, Result};
use tokio::task::JoinSet;

const SERVERS: usize = 4;
const READERS: usize = 5;
const KEY: &str = "front-page";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!("{SERVERS} servers with {READERS} readers each, and none finds {KEY:?} in the cache");

    let asked = read_all(Server::read_without_a_lock).await?;
    println!("without a lock: the source is asked {asked} times");
    assert_eq!(asked, SERVERS * READERS);

    let asked = read_all(Server::read).await?;
    println!(
        "with a lock:    the source is asked {asked} time, and {} readers find it",
        SERVERS * READERS - asked
    );
    assert_eq!(asked, 1);
    Ok(())
}

/// The parts that all servers share: the cache (such as Redis), the source (such as a database),
/// and the store of the locks.
#[derive(Clone, Default)]
struct World {
    cache: Arc<Mutex<HashMap<String, String>>>,
    asked: Arc<AtomicUsize>,
    locks: MemoryStore,
}

impl World {
    fn cache(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, key: &str) -> Option<String> {
        self.cache().get(key).cloned()
    }

    /// Asks the source, which takes some time, and keeps the answer in the cache.
    async fn fill(&self, key: &str) -> Result<String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let value = format!("the text of {key}");
        self.cache().insert(key.to_owned(), value.clone());
        Ok(value)
    }
}

/// One of the servers. In a real system each server is a process.
#[derive(Clone)]
struct Server {
    world: World,
    keeper: Keeper,
}

impl Server {
    async fn read_without_a_lock(self) -> Result<String> {
        match self.world.cached(KEY) {
            Some(value) => Ok(value),
            None => self.world.fill(KEY).await,
        }
    }

    async fn read(self) -> Result<String> {
        // A value in the cache is read without any lock.
        if let Some(value) = self.world.cached(KEY) {
            return Ok(value);
        }
        let guard =
            self.keeper.mutex(format!("cache/{KEY}"))?.lock().wait(Duration::from_secs(10)).await?;
        // The previous holder has filled the cache meanwhile. If it failed, this reader asks the
        // source.
        let value = match self.world.cached(KEY) {
            Some(value) => value,
            None => guard.scope(self.world.fill(KEY)).await?,
        };
        guard.release().await?;
        Ok(value)
    }
}

/// Lets all readers of all servers read at once, from an empty cache. Returns how often the source
/// was asked.
async fn read_all<F>(read: impl Fn(Server) -> F) -> Result<usize>
where
    F: Future<Output = Result<String>> + Send + 'static,
{
    let world = World::default();
    let mut readers = JoinSet::new();
    for _ in 0..SERVERS {
        let keeper = Keeper::builder(world.locks.clone()).connect().await?;
        let server = Server { world: world.clone(), keeper };
        for _ in 0..READERS {
            readers.spawn(read(server.clone()));
        }
    }
    for value in readers.join_all().await {
        assert_eq!(value?, format!("the text of {KEY}"));
    }
    Ok(world.asked.load(Ordering::Relaxed))
}
