//! The keeper: a connection to a store, from which all locks are made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::memory::MemoryStore;
use crate::engine::{Engine, SessionState, Settings};
use crate::event::{Event, Events};
use crate::info::{LockInfo, mode};
use crate::kinds::Mutex;
use crate::runtime::{Runtime, inside};
use crate::store::{Capabilities, Fencing, Store};
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, FencingToken, LockName, Result, Sequencer};

const TTL: Duration = Duration::from_secs(30);
const MAX_WAITERS: u32 = 1000;
const OWNER_MAX: usize = 255;

/// Connects to the store at `url` with all defaults; [`Keeper::from_url`] has the settings.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) for a URL that cannot be read, [`Unsupported`](ErrorKind::Unsupported) for a store
/// that this build does not have, and what the store refuses when it is opened.
pub async fn connect(url: &str) -> Result<Keeper> {
    Keeper::from_url(url)?.connect().await
}

/// Makes locks on one store. Cheap to clone; clones share the connection and its sessions.
///
/// The engine behind it runs on the tokio runtime in which the keeper was connected (with timers and I/O enabled), or
/// on a thread of its own when there was none. Guards keep it alive. [`shutdown`](Self::shutdown) ends it in order;
/// dropping the last clone lets go of everything in the background.
#[derive(Clone)]
pub struct Keeper {
    engine: Arc<Engine>,
}

impl Keeper {
    /// A keeper on this store, to be set up.
    pub fn builder(store: impl Store) -> KeeperBuilder {
        KeeperBuilder::new(Source::Store(Arc::new(store)))
    }

    /// A keeper on the store at `url`, to be set up. What the URL sets (`prefix`, `ttl`, `epoch`, `max-waiters`) can
    /// be replaced.
    ///
    /// # Errors
    /// As [`connect`], but for what only connecting can tell.
    pub fn from_url(url: &str) -> Result<KeeperBuilder> {
        let url: StoreUrl = url.parse()?;
        let mut builder = KeeperBuilder::new(Source::Url(Box::new(url.clone())));
        builder.set(&url);
        Ok(builder)
    }

    /// A keeper on a store in this process's memory, for tests and examples. Two of them are two stores.
    ///
    /// Outside a tokio runtime the engine gets a thread of its own.
    ///
    /// # Panics
    /// When the operating system gives no thread for it; [`KeeperBuilder::connect`] returns an error instead.
    pub fn memory() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        match KeeperBuilder::new(Source::Store(Arc::clone(&store))).start_on(store) {
            Ok(keeper) => keeper,
            #[allow(clippy::panic, reason = "documented: there is no thread to be had")]
            Err(error) => panic!("{error}"),
        }
    }

    /// The mutex of this name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is not 1 to 255 bytes, with the prefix, or has control
    /// characters.
    pub fn mutex<N>(&self, name: N) -> Result<Mutex>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        Ok(Mutex::new(&self.engine, self.full_name(name)?))
    }

    /// Who holds this lock and who waits for it, whatever its kind.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for the name, [`Unavailable`](ErrorKind::Unavailable) when the store does not
    /// answer.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    pub async fn inspect<N>(&self, name: N) -> Result<LockInfo>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.engine.usable()?;
        let name = self.full_name(name)?;
        let line = inside(&self.engine.runtime, self.engine.store.line(&name)).await;
        Ok(LockInfo::new(name.clone(), line.map_err(|e| self.engine.describe(e, &name))?))
    }

    /// Whether the grant that this sequencer speaks of still holds its lock, by the store's word at this moment.
    ///
    /// The name in the sequencer is taken as it is, prefix and all. For a resource that is asked often, a
    /// [`FenceGate`](crate::fence::FenceGate) answers without the store.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    pub async fn check_sequencer(&self, sequencer: &Sequencer) -> Result<bool> {
        self.engine.usable()?;
        let name = sequencer.name();
        let line = inside(&self.engine.runtime, self.engine.store.line(name)).await;
        let line = line.map_err(|e| self.engine.describe(e, name))?;
        let capacity = line.capacity.unwrap_or(crate::store::MAX);
        Ok(line.entries.iter().any(|entry| {
            entry.granted
                && entry.broken.is_none()
                && entry.token.and_then(|raw| FencingToken::new(entry.meta.epoch, raw)) == Some(sequencer.token())
                && mode(entry.weight, capacity) == sequencer.mode()
        }))
    }

    /// What the store can do.
    pub fn capabilities(&self) -> Capabilities {
        self.engine.capabilities.clone()
    }

    /// How the sessions are: the worst of them.
    pub fn session(&self) -> SessionWatch {
        SessionWatch(self.engine.watch_state())
    }

    /// The administrator's operations.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the store has none.
    pub fn admin(&self) -> Result<Admin> {
        self.engine.usable()?;
        if self.engine.store.admin().is_none() {
            let message = format!("{} has no operations for an administrator", self.engine.store);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Admin { engine: Arc::clone(&self.engine) })
    }

    /// How much the engine still has in hand: claims, claims that linger, places in local queues, owners. For tests:
    /// when everybody has let go it is zero.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn leftovers(&self) -> usize {
        self.engine.leftovers()
    }

    /// Ends all clones of this keeper: waiters leave the line with [`Closed`](ErrorKind::Closed), locks that are
    /// still held are lost with [`Shutdown`](crate::LostReason::Shutdown) and given up, and releases that are under
    /// way are awaited for `within`.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the store did not acknowledge all of it in time: what is left
    /// ends with its leases.
    ///
    /// # Cancel safety
    /// Dropped before its end, it has done a part of the above; call it again on a clone.
    pub async fn shutdown(self, within: Duration) -> Result<()> {
        if !self.engine.usable_here() {
            return self.engine.usable();
        }
        inside(&self.engine.runtime, self.engine.shutdown(within)).await
    }

    fn full_name<N>(&self, name: N) -> Result<LockName>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name: LockName = name.try_into()?;
        let prefix = &self.engine.settings.prefix;
        if prefix.is_empty() { Ok(name) } else { LockName::new(&format!("{prefix}{name}")) }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("store", &self.engine.store.to_string()).finish_non_exhaustive()
    }
}

/// The state of a keeper's sessions, to be asked or awaited.
#[derive(Clone, Debug)]
pub struct SessionWatch(watch::Receiver<SessionState>);

impl SessionWatch {
    /// The worst state of the sessions.
    pub fn state(&self) -> SessionState {
        *self.0.borrow()
    }

    /// The next state, once it differs from the one that was seen last. Pending for ever when the keeper is gone.
    ///
    /// # Cancel safety
    /// It may be dropped; no change is missed, but quick ones may be seen as one.
    pub async fn changed(&mut self) -> SessionState {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// The administrator's operations, from [`Keeper::admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    engine: Arc<Engine>,
}

impl Admin {
    /// The locks that somebody holds or waits for, whose names begin with the keeper's prefix and `prefix`: sorted by
    /// name, at most `limit`.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockInfo>> {
        let Some(admin) = self.engine.store.admin() else { return Ok(Vec::new()) };
        let prefix = format!("{}{prefix}", self.engine.settings.prefix);
        let names = inside(&self.engine.runtime, admin.names(&prefix, limit)).await;
        let mut locks = Vec::new();
        for name in names.map_err(|e| e.at(&self.engine.store.to_string()))? {
            let line = inside(&self.engine.runtime, self.engine.store.line(&name)).await;
            let line = line.map_err(|e| self.engine.describe(e, &name))?;
            // Between the two looks everybody may have left.
            if !line.entries.is_empty() {
                locks.push(LockInfo::new(name, line));
            }
        }
        Ok(locks)
    }
}

/// A keeper to be set up.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct KeeperBuilder {
    source: Source,
    settings: Settings,
    require: Option<Fencing>,
    clock: Clock,
    events: Events,
    problem: Option<Error>,
}

#[derive(Debug)]
enum Source {
    Store(Arc<dyn Store>),
    Url(Box<StoreUrl>),
}

impl KeeperBuilder {
    fn new(source: Source) -> Self {
        let settings = Settings {
            ttl: TTL,
            lock_delay: Duration::ZERO,
            max_hold: None,
            prefix: String::new(),
            owner: default_owner().into(),
            epoch: 0,
            max_waiters: MAX_WAITERS,
        };
        let events = Events::default();
        Self { source, settings, require: None, clock: Clock::boot(), events, problem: None }
    }

    fn set(&mut self, url: &StoreUrl) {
        let common = &url.common;
        let settings = &mut self.settings;
        settings.ttl = common.ttl.unwrap_or(settings.ttl);
        settings.epoch = common.epoch.unwrap_or(settings.epoch);
        settings.max_waiters = common.max_waiters.unwrap_or(settings.max_waiters);
        if let Some(prefix) = &common.prefix {
            settings.prefix.clone_from(prefix);
        }
    }

    /// How long a lock stays taken when its holder vanishes, where a handle does not say otherwise; 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// How much longer the store keeps a lock from others when its holder vanished, where a handle does not say
    /// otherwise; zero.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.settings.lock_delay = delay;
        self
    }

    /// How long a lock may be held at most, where an attempt does not say otherwise; no limit.
    pub fn max_hold(mut self, d: Duration) -> Self {
        if d.is_zero() {
            self.refuse("max_hold is zero: every lock would be lost at once");
        }
        self.settings.max_hold = Some(d);
        self
    }

    /// Plain text that is put before every name; none. Name and prefix have at most 255 bytes together.
    pub fn prefix(mut self, prefix: &str) -> Self {
        if !prefix.is_empty() && LockName::new(prefix).is_err() {
            self.refuse("the prefix is longer than 255 bytes or contains control characters");
        }
        prefix.clone_into(&mut self.settings.prefix);
        self
    }

    /// Who this is, for people who look at a lock, never as proof; `user@host:pid`. At most 255 bytes.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        let owner = owner.into();
        if owner.len() > OWNER_MAX {
            self.refuse(&format!("the owner has {} bytes; at most {OWNER_MAX} fit", owner.len()));
        }
        self.settings.owner = owner.into();
        self
    }

    /// The epoch of all tokens, 0 to 511; 0. An operator raises it, for all clients, after the store was restored
    /// from a backup or replaced, so that tokens go on rising.
    pub fn epoch(mut self, epoch: u16) -> Self {
        if epoch > FencingToken::MAX_EPOCH {
            self.refuse(&format!("the epoch is {epoch}; the highest is {}", FencingToken::MAX_EPOCH));
        }
        self.settings.epoch = epoch;
        self
    }

    /// How long a line may become; 1000. Whoever comes later gets [`QueueFull`](ErrorKind::QueueFull).
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.settings.max_waiters = waiters;
        self
    }

    /// Refuses to connect to a store whose tokens are worth less.
    pub fn require(mut self, fencing: Fencing) -> Self {
        self.require = Some(fencing);
        self
    }

    /// What is called with every [`Event`]: on whatever thread it happens, so it should be short. A panic in it is
    /// logged and goes no further.
    pub fn on_event(mut self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.events = Events::to(callback);
        self
    }

    /// The clock of the engine: the machine's. For tests on virtual time; the store needs the same one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the store, where it is not open yet, and starts the engine.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a setting that is impossible, [`Unsupported`](ErrorKind::Unsupported) for
    /// one that the store cannot do, and what the store refuses when it is opened.
    ///
    /// # Cancel safety
    /// It may be dropped; nothing is left but, perhaps, the files that a store makes when it is opened.
    pub async fn connect(mut self) -> Result<Keeper> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let store = match &self.source {
            Source::Store(store) => Arc::clone(store),
            Source::Url(url) => crate::backend::open(url).await?,
        };
        self.check(&*store)?;
        self.start_on(store)
    }

    fn start_on(self, store: Arc<dyn Store>) -> Result<Keeper> {
        let runtime = Runtime::here_or_own()?;
        Ok(Keeper { engine: Engine::start(store, self.clock, self.settings, runtime, self.events) })
    }

    fn check(&self, store: &dyn Store) -> Result<()> {
        let can = store.capabilities();
        let Settings { ttl, lock_delay, .. } = self.settings;
        let problem = if self.require.is_some_and(|required| can.fencing < required) {
            format!("its fencing is {:?}, {:?} is required", can.fencing, self.require.unwrap_or(Fencing::None))
        } else if ttl < can.ttl_min || ttl > can.ttl_max {
            format!("a ttl of {ttl:?} is outside what it can do: {:?} to {:?}", can.ttl_min, can.ttl_max)
        } else if lock_delay > can.lock_delay_max {
            format!("a lock-delay of {lock_delay:?} is more than it can do: {:?}", can.lock_delay_max)
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, format!("{store}: {problem}")))
    }

    fn refuse(&mut self, problem: &str) {
        self.problem.get_or_insert_with(|| Error::invalid(problem));
    }
}

/// `user@host:pid`, as well as they are known.
fn default_owner() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut owner = format!("{user}@{host}:{}", std::process::id());
    owner.retain(|c| !c.is_control());
    while owner.len() > OWNER_MAX {
        owner.remove(0);
    }
    owner
}
