//! The keeper: a connection to a store, which makes all locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::Admin;
use super::builder::{KeeperBuilder, Source};
use super::info::LockInfo;
use super::session_watch::SessionWatch;
use super::watch::LockWatch;
use crate::Open;
use crate::drivers;
use crate::engine::{Engine, mode};
use crate::kinds::{Election, MultiBuilder, MultiLock, Mutex, ReentrantMutex, RwLock, Semaphore};
use crate::runtime::inside;
use crate::store::{Capabilities, ClaimKey, Driver, Store};
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, FencingToken, Guard, Handle, LockName, Result, Sequencer};

/// Connects to the store at `url` with all defaults; [`Keeper::from_url`] has the settings.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) for a URL that cannot be read, or that has a parameter which the
/// store does not take. [`Unsupported`](ErrorKind::Unsupported) for a store that this build does
/// not have. Also the errors with which the store refuses to open.
///
/// # Cancel safety
/// As [`KeeperBuilder::connect`].
pub async fn connect(url: &str) -> Result<Keeper> {
    Keeper::from_url(url)?.connect().await
}

/// Makes locks on one store. Cheap to clone; clones share the connection and its sessions.
///
/// The engine of the keeper runs on the tokio runtime in which the keeper was connected (with
/// timers and I/O enabled). Without a runtime, or with
/// [`dedicated_thread`](KeeperBuilder::dedicated_thread), it runs on a thread of its own. Guards
/// keep the engine alive. [`shutdown`](Self::shutdown) ends it in order. Dropping the last clone
/// releases everything in the background.
#[derive(Clone)]
pub struct Keeper {
    engine: Arc<Engine>,
}

impl Keeper {
    /// A builder for a keeper on this store. The store may be open already. It may also be a
    /// builder of a store, which [`connect`](KeeperBuilder::connect) opens: see [`Open`].
    pub fn builder(store: impl Open<dyn Store>) -> KeeperBuilder {
        KeeperBuilder::new(Source::Open(Box::new(store)))
    }

    /// A builder for a keeper on the store at `url`. The builder can replace the settings of the
    /// URL (`prefix`, `ttl`, `epoch`, `max-waiters`). A [`StoreUrl`] can carry a secret that should
    /// not be part of a text, for example a password from a file.
    ///
    /// # Errors
    /// As [`connect`], except the errors that only connecting can find.
    pub fn from_url<U>(url: U) -> Result<KeeperBuilder>
    where
        U: TryInto<StoreUrl>,
        Error: From<U::Error>,
    {
        let url = url.try_into()?;
        drivers::check_params(&url)?;
        Ok(KeeperBuilder::new(Source::Url(Box::new(url))))
    }

    /// Adds the driver of another store, for all keepers of this process: from now on [`connect`],
    /// the parser of [`StoreUrl`] and [`doctor`](crate::doctor) know the URLs of that store. See
    /// [`Driver`] for an example. A driver that is registered already stays registered.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a scheme that another store has.
    pub fn register(driver: &'static Driver) -> Result<()> {
        drivers::register(driver)
    }

    /// A keeper on a new store in the memory of this process, for tests and examples. Two such
    /// keepers have two stores.
    ///
    /// Outside a tokio runtime the engine gets a thread of its own.
    ///
    /// # Panics
    /// When the operating system gives the engine no thread. [`KeeperBuilder::connect`] returns an
    /// error instead.
    pub fn memory() -> Self {
        match KeeperBuilder::memory().start() {
            Ok(keeper) => keeper,
            #[allow(clippy::panic, reason = "documented: there is no thread to be had")]
            Err(error) => panic!("{error}"),
        }
    }

    /// The mutex of this name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is not 1 to 255 bytes, with the prefix, or
    /// has control characters.
    pub fn mutex<N>(&self, name: N) -> Result<Mutex>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Mutex::new(&self.engine, self.engine.settings.checked_name(name)?))
    }

    /// The reentrant mutex of this name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn reentrant_mutex<N>(&self, name: N) -> Result<ReentrantMutex>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(ReentrantMutex::new(&self.engine, self.engine.settings.checked_name(name)?))
    }

    /// The read-write lock of this name. Its write lock is the [mutex](Self::mutex) of the name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn rw_lock<N>(&self, name: N) -> Result<RwLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(RwLock::new(&self.engine, self.engine.settings.checked_name(name)?))
    }

    /// The semaphore of this name, with this number of permits: 1 to 2^31. If its users name
    /// different numbers, the smallest number that a holder names counts: see [`Semaphore`].
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex), and for another
    /// number of permits.
    pub fn semaphore<N>(&self, name: N, permits: u32) -> Result<Semaphore>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Semaphore::new(&self.engine, self.engine.settings.checked_name(name)?, permits)
    }

    /// The election of this name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn election<N>(&self, name: N) -> Result<Election>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Election::new(&self.engine, self.engine.settings.checked_name(name)?))
    }

    /// Several locks as one lock, each in a mode of its own. An attempt gets all of them, or none.
    ///
    /// Every multi-lock acquires its locks in the order of the bytes of their names, so two
    /// multi-locks never wait for each other.
    pub fn multi(&self) -> MultiBuilder {
        MultiBuilder::new(&self.engine)
    }

    /// The mutexes of these names as one lock: a [`multi`](Self::multi) in which all locks are
    /// exclusive.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no names at all, and for a name as with
    /// [`mutex`](Self::mutex).
    pub fn multi_lock<N>(&self, names: impl IntoIterator<Item = N>) -> Result<MultiLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        names.into_iter().fold(self.multi(), MultiBuilder::lock).build()
    }

    /// The guard of a lock that was [detached](crate::Acquire::detached), in this process or in
    /// another.
    ///
    /// This guard differs from other guards. Only [`renew_once`](Guard::renew_once) renews it.
    /// Before the first renewal this process knows nothing of the lock, and [`check`](Guard::check)
    /// returns [`Unavailable`](ErrorKind::Unavailable). Dropping the guard leaves the lock taken,
    /// for the next process with the handle. Only [`release`](Guard::release) releases the lock.
    /// Every process with a copy of the handle can do the same.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) when the lock is in another store than this keeper's, or
    /// outside this keeper's prefix. The error names both. The first use of the guard shows whether
    /// the lock is still held.
    pub fn adopt(&self, handle: Handle) -> Result<Guard> {
        let engine = &self.engine;
        let full = handle.full_name();
        let name = engine
            .settings
            .short_name(full)
            .ok_or_else(|| outside(full, &engine.settings.prefix))?;
        let about = |error: Error| error.about(name.clone());
        engine.usable().map_err(about)?;
        let store = engine.store.to_string();
        if handle.store() != store {
            let message = format!(
                "its handle belongs to the store {}, and this keeper uses {store}",
                handle.store()
            );
            return Err(about(
                Error::new(ErrorKind::Mismatch, message).with_remedy("the store of the handle"),
            ));
        }
        let hold =
            engine.adopt(ClaimKey { name, ..handle.key() }, handle.token().raw(), handle.spec());
        Ok(Guard::adopt(engine, hold, handle.token(), handle.mode()))
    }

    /// The holders and the waiters of this lock, whatever its kind.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().reason("build 4711").await?;
    /// let lock = keeper.inspect("report").await?;
    /// assert_eq!(lock.holders[0].token, Some(guard.token()));
    /// assert_eq!(lock.holders[0].reason.as_deref(), Some("build 4711"));
    ///
    /// guard.release().await?;
    /// assert!(!keeper.inspect("report").await?.is_held());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for the name, [`Unavailable`](ErrorKind::Unavailable) when
    /// the store does not answer.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped.
    pub async fn inspect<N>(&self, name: N) -> Result<LockInfo>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.engine.usable()?;
        let name = self.engine.settings.checked_name(name)?;
        let line = self.engine.line(&name).await?;
        Ok(LockInfo::new(self.engine.settings.full_name(&name), name, line))
    }

    /// Watches the holders and the waiters of this lock, whatever its kind. This call sends nothing
    /// to the store yet.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for the name.
    pub fn watch<N>(&self, name: N) -> Result<LockWatch>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(LockWatch::new(&self.engine, self.engine.settings.checked_name(name)?))
    }

    /// Whether the grant of this sequencer still holds its lock. The keeper asks the store.
    ///
    /// A sequencer has the full name of its lock, which may be outside this keeper's prefix. For a
    /// resource with many requests, a [`FenceGate`](crate::fence::FenceGate) checks without the
    /// store.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped.
    pub async fn check_sequencer(&self, sequencer: &Sequencer) -> Result<bool> {
        self.engine.usable()?;
        let line = self.engine.line_of_full(sequencer.name()).await?;
        let capacity = line.capacity().unwrap_or(crate::store::MAX);
        Ok(line.entries.iter().any(|entry| {
            entry.granted
                && !entry.kept
                && entry.broken.is_none()
                && entry.token.and_then(|raw| FencingToken::new(entry.meta.epoch, raw))
                    == Some(sequencer.token())
                && covers(mode(entry.weight, capacity), sequencer.mode())
        }))
    }

    /// What the store can do.
    pub fn capabilities(&self) -> Capabilities {
        self.engine.capabilities.clone()
    }

    /// The state of the keeper's sessions: that of the worst session.
    pub fn session(&self) -> SessionWatch {
        SessionWatch::new(self.engine.sessions.watch())
    }

    /// The administrator's operations.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the store has no such operations.
    pub fn admin(&self) -> Result<Admin> {
        self.engine.usable()?;
        if self.engine.store.admin().is_none() {
            let message = format!("{} has no operations for an administrator", self.engine.store);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Admin::new(&self.engine))
    }

    /// How much the engine still has in hand: claims, claims in their lock-delay, places in local
    /// queues, owners. For tests: without holders and waiters it is zero.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn leftovers(&self) -> usize {
        self.engine.leftovers()
    }

    /// Ends this keeper and all its clones. Waiters leave the queue with
    /// [`Closed`](ErrorKind::Closed). Locks that are still held are lost with
    /// [`Shutdown`](crate::LostReason::Shutdown), and the keeper gives them up. The call waits for
    /// the releases under way, for at most `within`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().await?;
    /// guard.release().await?;
    /// // At the end of the program:
    /// keeper.shutdown(Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the store did not acknowledge all releases in
    /// time: the remaining locks end with their leases.
    ///
    /// # Cancel safety
    /// A future that is dropped before its end has done a part of the above. Call `shutdown` again
    /// on a clone.
    pub async fn shutdown(self, within: Duration) -> Result<()> {
        if !self.engine.lifetime.is_here() {
            return self.engine.usable();
        }
        inside(&self.engine.runtime, self.engine.shutdown(within)).await
    }

    pub(crate) fn on(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

fn outside(full: &LockName, prefix: &str) -> Error {
    let message = format!(
        "its handle belongs to the lock {full:?}, which is outside the prefix {prefix:?} of this keeper"
    );
    Error::new(ErrorKind::Mismatch, message)
        .with_remedy("the prefix with which the lock was acquired")
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("store", &self.engine.store.to_string())
            .finish_non_exhaustive()
    }
}

/// Whether a lock that is held in one mode is also held in another: 3 permits cover 2 permits.
fn covers(held: crate::Mode, said: crate::Mode) -> bool {
    use crate::Mode;

    match (held, said) {
        (Mode::Permits(held), Mode::Permits(said)) => said <= held,
        _ => held == said,
    }
}
