//! The keeper of a program with threads.

use std::time::Duration;

use super::admin::Admin;
use super::builder::KeeperBuilder;
use super::guard::Guard;
use super::kinds::{Election, MultiBuilder, MultiLock, Mutex, ReentrantMutex, RwLock, Semaphore};
use super::park::wait;
use super::watch::{LockWatch, SessionWatch};
use crate::store::{Capabilities, Store};
use crate::url::StoreUrl;
use crate::{Error, Handle, LockInfo, LockName, Open, Result, Sequencer};

/// Connects to the store at `url` with all defaults; [`Keeper::from_url`] has the settings.
///
/// # Errors
/// As [`lockkeeper::connect`](crate::connect).
pub fn connect(url: &str) -> Result<Keeper> {
    Keeper::from_url(url)?.connect()
}

/// Makes locks on one store: see [`Keeper`](crate::Keeper). Cheap to clone; clones share the connection, its sessions
/// and its thread.
#[derive(Clone, Debug)]
pub struct Keeper {
    inner: crate::Keeper,
}

impl Keeper {
    pub(super) fn new(inner: crate::Keeper) -> Self {
        Self { inner }
    }

    /// A builder for a keeper on this store. The store may be open already. It may also be a builder of a store, which
    /// [`connect`](KeeperBuilder::connect) opens on the engine's thread: see [`Open`].
    ///
    /// ```
    /// use lockkeeper::FileStore;
    /// use lockkeeper::blocking::Keeper;
    ///
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app/locks.db");
    /// let keeper = Keeper::builder(FileStore::new(path).create_parents(true)).prefix("app/").connect()?;
    /// keeper.mutex("stock/42")?.lock()?.release()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    pub fn builder(store: impl Open<dyn Store>) -> KeeperBuilder {
        KeeperBuilder::new(crate::Keeper::builder(store))
    }

    /// A builder for a keeper on the store at `url`: see [`Keeper::from_url`](crate::Keeper::from_url).
    ///
    /// # Errors
    /// As [`connect`], except the errors that only connecting can find.
    pub fn from_url<U>(url: U) -> Result<KeeperBuilder>
    where
        U: TryInto<StoreUrl>,
        Error: From<U::Error>,
    {
        crate::Keeper::from_url(url).map(KeeperBuilder::new)
    }

    /// A keeper on a new store in the memory of this process, for tests and examples. Two such keepers have two stores.
    ///
    /// # Panics
    /// When the operating system gives the engine no thread. [`KeeperBuilder::connect`] returns an error instead.
    pub fn memory() -> Self {
        match KeeperBuilder::new(crate::KeeperBuilder::memory()).start() {
            Ok(keeper) => keeper,
            #[allow(clippy::panic, reason = "documented: there is no thread to be had")]
            Err(error) => panic!("{error}"),
        }
    }

    /// The mutex of this name.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name that is not 1 to 255 bytes, with the prefix, or has control
    /// characters.
    pub fn mutex<N>(&self, name: N) -> Result<Mutex>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.mutex(name).map(Mutex::new)
    }

    /// The reentrant mutex of this name: a thread that holds it can lock it again. For all other threads it is the
    /// [mutex](Self::mutex) of the name.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn reentrant_mutex<N>(&self, name: N) -> Result<ReentrantMutex>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.reentrant_mutex(name).map(ReentrantMutex::new)
    }

    /// The read-write lock of this name. Its write lock is the [mutex](Self::mutex) of the name.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn rw_lock<N>(&self, name: N) -> Result<RwLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.rw_lock(name).map(RwLock::new)
    }

    /// The semaphore of this name, with this number of permits: 1 to 2^31. If its users name different numbers, the
    /// smallest number that a holder names counts: see [`Semaphore`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex), and for another number of
    /// permits.
    pub fn semaphore<N>(&self, name: N, permits: u32) -> Result<Semaphore>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.semaphore(name, permits).map(Semaphore::new)
    }

    /// The election of this name.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as with [`mutex`](Self::mutex).
    pub fn election<N>(&self, name: N) -> Result<Election>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.election(name).map(Election::new)
    }

    /// Several locks as one lock, each in a mode of its own. An attempt gets all of them, or none: see
    /// [`Keeper::multi`](crate::Keeper::multi).
    pub fn multi(&self) -> MultiBuilder {
        MultiBuilder::new(self.inner.multi())
    }

    /// The mutexes of these names as one lock: a [`multi`](Self::multi) in which all locks are exclusive.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for no names at all, and for a name as with [`mutex`](Self::mutex).
    pub fn multi_lock<N>(&self, names: impl IntoIterator<Item = N>) -> Result<MultiLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.multi_lock(names).map(MultiLock::new)
    }

    /// The guard of a lock that was [detached](super::Attempt::detached), in this process or in another. Only
    /// [`renew_once`](Guard::renew_once) renews it, and dropping the guard leaves the lock taken: see
    /// [`Keeper::adopt`](crate::Keeper::adopt).
    ///
    /// # Errors
    /// [`Mismatch`](crate::ErrorKind::Mismatch) when the lock is in another store than this keeper's, or outside this
    /// keeper's prefix.
    pub fn adopt(&self, handle: Handle) -> Result<Guard> {
        self.inner.adopt(handle).map(Guard::new)
    }

    /// The holders and the waiters of this lock, whatever its kind.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for the name, [`Unavailable`](crate::ErrorKind::Unavailable) when the
    /// store does not answer.
    pub fn inspect<N>(&self, name: N) -> Result<LockInfo>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        wait(self.inner.inspect(name))?
    }

    /// Watches the holders and the waiters of this lock, whatever its kind. This call sends nothing to the store yet.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for the name.
    pub fn watch<N>(&self, name: N) -> Result<LockWatch>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.watch(name).map(LockWatch::new)
    }

    /// Whether the grant of this sequencer still holds its lock. The keeper asks the store: see
    /// [`Keeper::check_sequencer`](crate::Keeper::check_sequencer).
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    pub fn check_sequencer(&self, sequencer: &Sequencer) -> Result<bool> {
        wait(self.inner.check_sequencer(sequencer))?
    }

    /// What the store can do.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    /// The state of the keeper's sessions: that of the worst session.
    pub fn session(&self) -> SessionWatch {
        SessionWatch::new(self.inner.session())
    }

    /// The administrator's operations.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the store has no such operations.
    pub fn admin(&self) -> Result<Admin> {
        self.inner.admin().map(Admin::new)
    }

    /// Ends this keeper and all its clones. Waiting threads get [`Closed`](crate::ErrorKind::Closed). Locks that are
    /// still held are lost with [`Shutdown`](crate::LostReason::Shutdown), and the keeper gives them up. The call waits
    /// for the releases under way, for at most `within`.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store did not acknowledge all releases in time: the
    /// remaining locks end with their leases.
    pub fn shutdown(self, within: Duration) -> Result<()> {
        wait(self.inner.shutdown(within))?
    }
}
