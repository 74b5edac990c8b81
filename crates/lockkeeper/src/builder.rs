//! Setting up a keeper.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "metrics")]
use crate::LockName;
use crate::engine::{Engine, Settings, Stores};
use crate::event::{Event, Events};
use crate::layer::Prefix;
use crate::name::check_prefix;
use crate::open::Open;
use crate::runtime::{Runtime, Task, inside};
use crate::store::{Fencing, SessionSpec, Store};
use crate::time::Clock;
use crate::url::{CommonParams, StoreUrl};
use crate::{Error, ErrorKind, FencingToken, Keeper, MemoryStore, Result};

const OWNER_MAX: usize = 255;

/// A keeper to be set up.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct KeeperBuilder {
    source: Source,
    settings: Settings,
    require: Option<Fencing>,
    clock: Clock,
    dedicated: bool,
    events: Events,
    layers: Vec<Layer>,
    problem: Option<Error>,
}

/// What is put around the store once it is open.
struct Layer(Box<Around>);

type Around = dyn FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync;

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Layer")
    }
}

#[derive(Debug)]
pub(crate) enum Source {
    Store(Arc<dyn Store>),
    Open(Box<dyn Open<dyn Store>>),
    Url(Box<StoreUrl>),
}

impl Source {
    fn opening(self) -> Task<Result<Arc<dyn Store>>> {
        match self {
            Self::Store(store) => Box::pin(std::future::ready(Ok(store))),
            Self::Open(open) => Box::pin(async move { open.opened().await }),
            Self::Url(url) => Box::pin(async move { crate::backend::open(&url).await }),
        }
    }
}

impl KeeperBuilder {
    /// The [ttl](Self::ttl) of a lock where nothing else is set.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
    /// The [lock-delay](Self::lock_delay) where nothing else is set.
    pub const DEFAULT_LOCK_DELAY: Duration = Duration::ZERO;
    /// How [long a line may become](Self::max_waiters) where nothing else is set.
    pub const DEFAULT_MAX_WAITERS: u32 = 1000;

    pub(crate) fn new(source: Source) -> Self {
        let mut settings = Settings {
            ttl: Self::DEFAULT_TTL,
            lock_delay: Self::DEFAULT_LOCK_DELAY,
            max_hold: None,
            default_wait: None,
            prefix: String::new(),
            owner: default_owner().into(),
            epoch: 0,
            max_waiters: Self::DEFAULT_MAX_WAITERS,
        };
        if let Source::Url(url) = &source {
            set(&mut settings, &url.common);
        }
        let events = Events::default();
        Self {
            source,
            settings,
            require: None,
            clock: Clock::holder(),
            dedicated: false,
            events,
            layers: Vec::new(),
            problem: None,
        }
    }

    /// On a new store in memory.
    pub(crate) fn memory() -> Self {
        Self::new(Source::Store(Arc::new(MemoryStore::new())))
    }

    /// Uses this store, open already or to be [opened](Open), instead of the one that the URL names. What else the URL
    /// says holds.
    pub fn store(mut self, store: impl Open<dyn Store>) -> Self {
        self.source = Source::Open(Box::new(store));
        self
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
            let problem = Error::invalid("max_hold is zero: every lock would be lost at once");
            self.refuse(problem.with_remedy("the longest time that the work may take"));
        }
        self.settings.max_hold = Some(d);
        self
    }

    /// How long an attempt stands in line at most that waits, where it does not [say](crate::Acquire::wait) for how long;
    /// for ever. Candidates of an election are attempts too. A `try_` form does not wait, whatever is set here.
    pub fn default_wait(mut self, d: Duration) -> Self {
        if d.is_zero() {
            let problem = Error::invalid("default_wait is zero: no attempt would ever wait");
            self.refuse(problem.with_remedy("the longest time that an attempt may wait, or the try_ forms"));
        }
        self.settings.default_wait = Some(d);
        self
    }

    /// Plain text that stands before every name in the store; none. Name and prefix have at most 255 bytes together.
    ///
    /// The keeper shows a name as it was typed, without the prefix: guards, events, errors, [`inspect`](Keeper::inspect)
    /// and [`list`](crate::Admin::list) do, so that each name that they show can be given to this keeper again. Locks
    /// outside of the prefix are not shown at all. [`Guard::full_name`](crate::Guard::full_name) has the prefix, and so
    /// have sequencers and handles. [`Prefix`](crate::layer::Prefix) hides the prefix from those too.
    pub fn prefix(mut self, prefix: &str) -> Self {
        if let Err(error) = check_prefix(prefix) {
            self.problem.get_or_insert(error);
        }
        prefix.clone_into(&mut self.settings.prefix);
        self
    }

    /// Who this is, for people who look at a lock, never as proof; `user@host:pid`. At most 255 bytes.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        let owner = owner.into();
        if owner.len() > OWNER_MAX {
            let problem = Error::invalid(format!("the owner has {} bytes", owner.len()));
            self.refuse(problem.with_remedy(format!("at most {OWNER_MAX}")));
        }
        self.settings.owner = owner.into();
        self
    }

    /// The epoch of all tokens, 0 to 511; 0. An operator raises it, for all clients, after the store was restored
    /// from a backup or replaced, so that tokens go on rising. A client with a
    /// lower epoch is refused while one with a higher is in line; on a free lock it is not, and gets lower tokens.
    pub fn epoch(mut self, epoch: u16) -> Self {
        if epoch > FencingToken::MAX_EPOCH {
            let problem = Error::invalid(format!("the epoch is {epoch}"));
            self.refuse(problem.with_remedy(format!("0 to {}", FencingToken::MAX_EPOCH)));
        }
        self.settings.epoch = epoch;
        self
    }

    /// How long a line may become; 1000, and never longer than the store bears. Whoever comes later gets
    /// [`QueueFull`](ErrorKind::QueueFull).
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.settings.max_waiters = waiters;
        self
    }

    /// Refuses to connect to a store whose tokens are worth less.
    pub fn require(mut self, fencing: Fencing) -> Self {
        self.require = Some(fencing);
        self
    }

    /// Runs the engine on a thread of its own instead of the runtime in which the keeper is connected, for a program
    /// that blocks its runtime: with long computations between two awaits, or with calls that wait. Locks are renewed
    /// on that thread, whatever the program's own threads do, and releases that were begun are brought to their end.
    ///
    /// A store that is still to be [opened](Open), from a builder or a URL, is opened there too. One that was opened
    /// before runs where its maker says: the memory and the file store need no runtime at all. It costs a thread, and
    /// each attempt a change of threads where it has to wait.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// let keeper = lockkeeper::Keeper::from_url("memory:")?.dedicated_thread().connect().await?;
    /// let guard = keeper.mutex("report")?.lock().await?;
    /// // A long computation here, without any await, and the lock is renewed all the same.
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    pub fn dedicated_thread(mut self) -> Self {
        self.dedicated = true;
        self
    }

    /// What is called with every [`Event`]: on whatever thread it happens, so it should be short. A panic in it is
    /// logged and goes no further.
    pub fn on_event(mut self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.events = self.events.to(callback);
        self
    }

    /// Gives the figures of locks a label `group`, which `group` makes of a lock's name: what stands before its first
    /// `/`, say. A recorder keeps each group for ever, so there must be few: from the hundredth on they are `other`.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// let keeper = lockkeeper::Keeper::from_url("memory:")?
    ///     .metrics_group(|name| name.as_str().split('/').next().unwrap_or_default().to_owned())
    ///     .connect()
    ///     .await?;
    /// # drop(keeper);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metrics_group(mut self, group: impl Fn(&LockName) -> String + Send + Sync + 'static) -> Self {
        self.events = self.events.grouped(group);
        self
    }

    /// The clock of the engine: the machine's. For tests on virtual time; the store needs the same one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Puts a store around the store, once that is open: for one that was named by a URL. Of several the last is the
    /// outermost.
    pub fn layer<S: Store>(mut self, around: impl FnOnce(Arc<dyn Store>) -> S + Send + Sync + 'static) -> Self {
        self.layers.push(Layer(Box::new(|store| Arc::new(around(store)))));
        self
    }

    /// Opens the store, where it is not open yet, and starts the engine.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a setting that is impossible, [`Unsupported`](ErrorKind::Unsupported) for
    /// one that the store cannot do, and what the store refuses when it is opened.
    ///
    /// # Cancel safety
    /// It may be dropped; nothing is left but, perhaps, the files that a store makes when it is opened, and on a thread
    /// of its own an opening that goes on for up to 5 s.
    pub async fn connect(mut self) -> Result<Keeper> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let runtime = self.runtime()?;
        let store = inside(&runtime, runtime.carry(self.source.opening())).await?;
        let store = self.layers.into_iter().fold(store, |store, layer| layer.0(store));
        check(&*store, &self.settings, self.require)?;
        let store = Stores::behind(store, &self.settings.prefix)?;
        Ok(Keeper::on(Engine::start(store, self.clock, self.settings, runtime, self.events)))
    }

    /// Without what only connecting can do.
    pub(crate) fn start(self) -> Result<Keeper> {
        let runtime = self.runtime()?;
        match self.source {
            Source::Store(store) => {
                let store = Stores::behind(store, &self.settings.prefix)?;
                Ok(Keeper::on(Engine::start(store, self.clock, self.settings, runtime, self.events)))
            }
            unopened => Err(Error::new(ErrorKind::Internal, format!("{unopened:?} was not opened"))),
        }
    }

    fn runtime(&self) -> Result<Runtime> {
        if !self.dedicated {
            let runtime = Runtime::here_or_own()?;
            return runtime.check().map(|()| runtime);
        }
        if !self.clock.is_the_machines() {
            return Err(Error::invalid("a thread of its own does not see the time of the caller's runtime")
                .with_remedy("Clock::holder() with dedicated_thread()"));
        }
        Runtime::own()
    }

    fn refuse(&mut self, problem: Error) {
        self.problem.get_or_insert(problem);
    }
}

impl Stores {
    /// The engine knows names as they are typed; only here does the prefix come before them.
    fn behind(whole: Arc<dyn Store>, prefix: &str) -> Result<Self> {
        if prefix.is_empty() {
            return Ok(Self { shown: Arc::clone(&whole), whole });
        }
        Ok(Self { shown: Arc::new(Prefix::new(Arc::clone(&whole), prefix)?), whole })
    }
}

fn check(store: &dyn Store, settings: &Settings, require: Option<Fencing>) -> Result<()> {
    let can = store.capabilities();
    let checked = match require {
        Some(required) if can.fencing < required => {
            let problem = format!("its fencing is {:?}, {required:?} is required", can.fencing);
            Err(Error::new(ErrorKind::Unsupported, problem).with_remedy("a store with stronger fencing"))
        }
        _ => can.check(&SessionSpec::new(settings.ttl, settings.lock_delay)),
    };
    checked.map_err(|error| error.at(&store.to_string()))
}

/// What a URL sets can be replaced by the builder.
fn set(settings: &mut Settings, url: &CommonParams) {
    settings.ttl = url.ttl.unwrap_or(settings.ttl);
    settings.epoch = url.epoch.unwrap_or(settings.epoch);
    settings.max_waiters = url.max_waiters.unwrap_or(settings.max_waiters);
    if let Some(prefix) = &url.prefix {
        settings.prefix.clone_from(prefix);
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
