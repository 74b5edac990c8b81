//! The keeper of a program with threads, with its admin, its watches and the state of its sessions.

use std::sync::Arc;
use std::time::Duration;

use super::election::Election;
use super::guard::Guard;
use super::kinds::{MultiBuilder, MultiLock, Mutex, RwLock, Semaphore};
use super::mirror::{Mirrored, mirror, wrappers};
use super::park::{wait, wait_for};
use super::reentrant::ReentrantMutex;
use crate::store::{Capabilities, Fencing, Store};
use crate::url::StoreUrl;
use crate::{
    Break, Error, Event, Handle, LockInfo, LockName, Open, Result, Sequencer, SessionState, Target,
};

/// Connects to the store at `url` with all defaults; [`Keeper::from_url`] has the settings.
///
/// # Errors
/// As [`lockkeeper::connect`](crate::connect).
pub fn connect(url: &str) -> Result<Keeper> {
    Keeper::from_url(url)?.connect()
}

wrappers! {
    /// Makes locks on one store: see [`Keeper`](crate::Keeper). Cheap to clone; clones share the
    /// connection, its sessions and its thread.
    #[derive(Clone, Debug)]
    Keeper;

    /// The settings of a keeper that is not connected yet: see
    /// [`KeeperBuilder`](crate::KeeperBuilder).
    #[derive(Debug)]
    #[must_use = "a builder does nothing until it is connected"]
    KeeperBuilder;

    /// The administrator's operations, from [`Keeper::admin`]: see [`Admin`](crate::Admin).
    #[derive(Clone, Debug)]
    Admin;

    /// A watch on one lock, from [`Keeper::watch`].
    #[derive(Debug)]
    LockWatch;

    /// The state of a keeper's sessions, to read or to wait for; from [`Keeper::session`].
    #[derive(Clone, Debug)]
    SessionWatch;
}

impl Keeper {
    /// A builder for a keeper on this store. The store may be open already, or it may be a builder
    /// of a store, which [`connect`](KeeperBuilder::connect) opens on the engine's thread: see
    /// [`Open`].
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
        crate::Keeper::builder(store).dedicated_thread().here()
    }

    /// A builder for a keeper on the store at `url`: see
    /// [`Keeper::from_url`](crate::Keeper::from_url).
    ///
    /// # Errors
    /// As [`connect`], except the errors that only connecting can find.
    pub fn from_url<U>(url: U) -> Result<KeeperBuilder>
    where
        U: TryInto<StoreUrl>,
        Error: From<U::Error>,
    {
        Ok(crate::Keeper::from_url(url)?.dedicated_thread().here())
    }

    /// A keeper on a new store in the memory of this process, for tests and examples. Two such
    /// keepers have two stores.
    ///
    /// # Panics
    /// When the operating system gives the engine no thread. [`KeeperBuilder::connect`] returns an
    /// error instead.
    pub fn memory() -> Self {
        match crate::KeeperBuilder::memory().dedicated_thread().start() {
            Ok(keeper) => keeper.here(),
            #[allow(clippy::panic, reason = "documented: there is no thread to be had")]
            Err(error) => panic!("{error}"),
        }
    }

    /// The mutexes of these names as one lock: a [`multi`](Self::multi) in which all locks are
    /// exclusive. See [`Keeper::multi_lock`](crate::Keeper::multi_lock).
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for no names at all, and for a name as with
    /// [`mutex`](Self::mutex).
    pub fn multi_lock<N>(&self, names: impl IntoIterator<Item = N>) -> Result<MultiLock>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.inner.multi_lock(names).here()
    }

    mirror! { Keeper:
        /// The mutex of this name.
        wrap fn mutex<N>(&self, name: N) -> Result<Mutex>;
        /// The reentrant mutex of this name: a thread that holds it can lock it again. For all
        /// other threads it is the [mutex](Self::mutex) of the name.
        wrap fn reentrant_mutex<N>(&self, name: N) -> Result<ReentrantMutex>;
        /// The read-write lock of this name. Its write lock is the [mutex](Self::mutex) of the
        /// name.
        wrap fn rw_lock<N>(&self, name: N) -> Result<RwLock>;
        /// The semaphore of this name, with this number of permits: 1 to 2^31.
        wrap fn semaphore<N>(&self, name: N, permits: u32) -> Result<Semaphore>;
        /// The election of this name.
        wrap fn election<N>(&self, name: N) -> Result<Election>;
        /// Several locks as one lock, each in a mode of its own. An attempt gets all of them, or
        /// none.
        wrap fn multi(&self) -> MultiBuilder;
        /// The guard of a lock that was [detached](super::Attempt::detached), in this process or in
        /// another. Only [`renew_once`](Guard::renew_once) renews it, and dropping the guard leaves
        /// the lock taken.
        wrap fn adopt(&self, handle: Handle) -> Result<Guard>;
        /// The holders and the waiters of this lock, whatever its kind.
        wait fn inspect<N>(&self, name: N) -> Result<LockInfo>;
        /// Watches the holders and the waiters of this lock, whatever its kind.
        wrap fn watch<N>(&self, name: N) -> Result<LockWatch>;
        /// Whether the grant of this sequencer still holds its lock. The keeper asks the store.
        wait fn check_sequencer(&self, sequencer: &Sequencer) -> Result<bool>;
        /// What the store can do.
        call fn capabilities(&self) -> Capabilities;
        /// The worst state of the keeper's sessions.
        wrap fn session(&self) -> SessionWatch;
        /// The administrator's operations.
        wrap fn admin(&self) -> Result<Admin>;
        /// Ends this keeper and all its clones. Waiting threads get
        /// [`Closed`](crate::ErrorKind::Closed). The call waits for the releases under way, for at
        /// most `within`.
        wait fn shutdown(self, within: Duration) -> Result<()>;
    }
}

impl KeeperBuilder {
    mirror! { KeeperBuilder:
        /// Uses this store instead of the store of the URL. The store may be open already, or a
        /// builder that [`connect`](Self::connect) opens: see [`Open`].
        set fn store(self, store: impl Open<dyn Store>) -> Self;
        /// The ttl: how long a lock stays taken when its holder vanishes. The default is 30 s; a
        /// lock can set its own.
        set fn ttl(self, ttl: Duration) -> Self;
        /// The lock-delay: how much longer than the ttl the store keeps a lock from others when its
        /// holder vanished. The default is zero; a lock can set its own.
        set fn lock_delay(self, delay: Duration) -> Self;
        /// The longest time to hold a lock, unless the attempt sets another limit. The default is
        /// no limit.
        set fn max_hold(self, d: Duration) -> Self;
        /// The longest wait in the queue, unless the attempt sets another. The default is no limit.
        set fn default_wait(self, d: Duration) -> Self;
        /// Plain text before every name in the store. The default is no prefix.
        set fn prefix(self, prefix: impl Into<String>) -> Self;
        /// The owner that people see when they look at a lock, at most 255 bytes. It proves
        /// nothing. The default is `user@host:pid`.
        set fn owner(self, owner: impl Into<String>) -> Self;
        /// The epoch of all tokens, 0 to 511. The default is 0.
        set fn epoch(self, epoch: u16) -> Self;
        /// The longest queue of a lock. The default is 1000. An attempt that comes later gets
        /// [`QueueFull`](crate::ErrorKind::QueueFull).
        set fn max_waiters(self, waiters: u32) -> Self;
        /// Refuses to connect to a store with weaker fencing than this.
        set fn require(self, fencing: Fencing) -> Self;
        /// Calls `callback` with every [`Event`], on the thread on which the event happens. This
        /// may be the engine's thread, so the callback must not wait: a call of this module that
        /// would wait is refused there.
        set fn on_event(self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self;
    }

    /// Puts a layer around the store once it is open, for example around the store of a URL. The
    /// last of several layers is the outermost. See
    /// [`KeeperBuilder::layer`](crate::KeeperBuilder::layer).
    pub fn layer<S: Store>(
        self,
        around: impl FnOnce(Arc<dyn Store>) -> S + Send + Sync + 'static,
    ) -> Self {
        self.inner.layer(around).here()
    }

    /// Opens the store if it is not open yet, and starts the engine on a thread of its own.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an impossible setting,
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a setting that the store does not
    /// support. Also the errors with which the store refuses to open.
    pub fn connect(self) -> Result<Keeper> {
        wait(self.inner.connect())?.here()
    }
}

impl Admin {
    mirror! { Admin:
        /// The locks with a holder or a waiter whose names begin with `prefix`, sorted by name, at
        /// most `limit`. The list has no lock outside the keeper's prefix.
        wait fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockInfo>>;
        /// Breaks the lock of one holder. The result is `false` when no such holder exists.
        wait fn break_lock<N>(&self, name: N, target: Target, reason: &str, how: Break) -> Result<bool>;
        /// Asks the holders of a lock to release it, and breaks nothing. The result is `false` when
        /// the lock has no holder.
        wait fn request_release<N>(&self, name: N, reason: &str) -> Result<bool>;
    }
}

impl LockWatch {
    mirror! { LockWatch:
        /// Waits until the holders or the waiters differ from the holders or the waiters of the
        /// last call, and returns the lock. The first call returns at once.
        wait fn changed(&mut self) -> Result<LockInfo>;
    }

    /// As [`changed`](Self::changed), for at most `d`. The result is `None` when nothing has
    /// changed by then.
    ///
    /// # Errors
    /// As [`changed`](Self::changed).
    pub fn changed_timeout(&mut self, d: Duration) -> Result<Option<LockInfo>> {
        wait_for(d, self.inner.changed())?.transpose()
    }
}

impl SessionWatch {
    mirror! { SessionWatch:
        /// The worst state of the sessions.
        call fn state(&self) -> SessionState;
    }

    /// Waits for the next state, which differs from the last state that was seen. The result is
    /// `None` when the keeper is gone.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn changed(&mut self) -> Result<Option<SessionState>> {
        wait(self.inner.next())
    }

    /// As [`changed`](Self::changed), for at most `d`. The result is also `None` when nothing has
    /// changed by then.
    ///
    /// # Errors
    /// As [`changed`](Self::changed).
    pub fn changed_timeout(&mut self, d: Duration) -> Result<Option<SessionState>> {
        wait_for(d, self.inner.next()).map(Option::flatten)
    }
}
