//! Setting up a keeper.

mod owner;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::owner::{OWNER_MAX, default_owner};
#[cfg(feature = "metrics")]
use crate::LockName;
use crate::Open;
use crate::engine::{Engine, Settings, Stores};
use crate::event::Event;
use crate::events::Events;
use crate::layer::Prefix;
use crate::name::check_prefix;
use crate::runtime::{Runtime, Task, inside};
use crate::store::{Fencing, SessionSpec, Store, refusal};
use crate::time::Clock;
use crate::url::{CommonParams, StoreUrl};
use crate::{Error, ErrorKind, FencingToken, Keeper, MemoryStore, Result};

/// The settings of a keeper that is not connected yet.
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

/// A layer that is put around the open store.
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
            Self::Url(url) => Box::pin(async move { crate::drivers::open(&url).await }),
        }
    }
}

impl KeeperBuilder {
    /// The [ttl](Self::ttl) of a lock where nothing else is set.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
    /// The [lock-delay](Self::lock_delay) where nothing else is set.
    pub const DEFAULT_LOCK_DELAY: Duration = Duration::ZERO;
    /// The [longest queue](Self::max_waiters) where nothing else is set.
    pub const DEFAULT_MAX_WAITERS: u32 = 1000;

    pub(crate) fn new(source: Source) -> Self {
        let mut settings = Settings {
            ttl: Self::DEFAULT_TTL,
            lock_delay: Self::DEFAULT_LOCK_DELAY,
            max_hold: None,
            default_wait: None,
            prefix: String::new(),
            owner: default_owner(|name| std::env::var(name).ok()).into(),
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

    /// A builder for a keeper on a new memory store.
    pub(crate) fn memory() -> Self {
        Self::new(Source::Store(Arc::new(MemoryStore::new())))
    }

    /// Uses this store instead of the store of the URL. The store may be open already, or a builder
    /// that [`connect`](Self::connect) opens: see [`Open`]. The other settings of the URL stay.
    pub fn store(mut self, store: impl Open<dyn Store>) -> Self {
        self.source = Source::Open(Box::new(store));
        self
    }

    /// The ttl: how long a lock stays taken when its holder vanishes. The default is 30 s; a lock
    /// can set its own ttl.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The lock-delay: how much longer than the ttl the store keeps a lock from others when its
    /// holder vanished. The default is zero; a lock can set its own lock-delay.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.settings.lock_delay = delay;
        self
    }

    /// The longest time to hold a lock, unless the attempt sets another limit. The default is no
    /// limit.
    pub fn max_hold(mut self, d: Duration) -> Self {
        if d.is_zero() {
            let problem = Error::invalid("max_hold is zero: every lock would be lost at once");
            self.refuse(problem.with_remedy("the longest time that the work may take"));
        }
        self.settings.max_hold = Some(d);
        self
    }

    /// The longest wait in the queue, unless the attempt [sets another](crate::Acquire::wait). The
    /// default is no limit. It applies to the candidates of an election too. A `try_` form does not
    /// wait, whatever this setting is.
    pub fn default_wait(mut self, d: Duration) -> Self {
        if d.is_zero() {
            let problem = Error::invalid("default_wait is zero: no attempt would ever wait");
            self.refuse(
                problem.with_remedy("the longest time that an attempt may wait, or the try_ forms"),
            );
        }
        self.settings.default_wait = Some(d);
        self
    }

    /// Plain text before every name in the store. The default is no prefix. Name and prefix have at
    /// most 255 bytes together.
    ///
    /// Guards, events, errors, [`inspect`](Keeper::inspect) and [`list`](crate::Admin::list) show a
    /// name as it was typed, without the prefix, so this keeper accepts each name that they show.
    /// They show no lock outside the prefix. [`Guard::full_name`](crate::Guard::full_name),
    /// sequencers and handles have the prefix. [`Prefix`](crate::layer::Prefix) hides the prefix
    /// from those too.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        if let Err(error) = check_prefix(&prefix) {
            self.problem.get_or_insert(error);
        }
        self.settings.prefix = prefix;
        self
    }

    /// The owner that people see when they look at a lock, at most 255 bytes. It proves nothing.
    /// The default is `user@host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        let owner = owner.into();
        if owner.len() > OWNER_MAX {
            let problem = Error::invalid(format!("the owner has {} bytes", owner.len()));
            self.refuse(problem.with_remedy(format!("at most {OWNER_MAX}")));
        }
        self.settings.owner = owner.into();
        self
    }

    /// The epoch of all tokens, 0 to 511. The default is 0. After a restore of the store from a
    /// backup, or a move to another store, an operator raises the epoch for all clients, so that
    /// tokens go on rising. While a claim with a higher epoch is in line, the store refuses a
    /// client with a lower epoch. On a free lock it does not, and that client gets lower tokens.
    pub fn epoch(mut self, epoch: u16) -> Self {
        if epoch > FencingToken::MAX_EPOCH {
            let problem = Error::invalid(format!("the epoch is {epoch}"));
            self.refuse(problem.with_remedy(format!("0 to {}", FencingToken::MAX_EPOCH)));
        }
        self.settings.epoch = epoch;
        self
    }

    /// The longest queue of a lock. The default is 1000; a store may have a lower limit of its own.
    /// An attempt that comes later gets [`QueueFull`](ErrorKind::QueueFull).
    pub fn max_waiters(mut self, waiters: u32) -> Self {
        self.settings.max_waiters = waiters;
        self
    }

    /// Refuses to connect to a store with weaker fencing than this.
    pub fn require(mut self, fencing: Fencing) -> Self {
        self.require = Some(fencing);
        self
    }

    /// Runs the engine on a thread of its own instead of the runtime in which the keeper is
    /// connected. This is for a program that blocks its runtime, with long computations between two
    /// awaits or with blocking calls. The engine renews locks and finishes releases on that thread,
    /// whatever the program's own threads do.
    ///
    /// The engine also opens the store on that thread, if the keeper has a builder or a URL of a
    /// store ([`Open`]). A store that is open already stays on the runtime that opened it; the
    /// memory and the file store need no runtime. The setting costs a thread, and a change of
    /// threads in each attempt that has to wait.
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

    /// Calls `callback` with every [`Event`], on the thread on which the event happens, so the
    /// callback should be short. The keeper logs a panic in the callback and goes on.
    ///
    /// ```
    /// use lockkeeper::{Event, Keeper};
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// let keeper = Keeper::from_url("memory:")?
    ///     .on_event(|event| {
    ///         if let Event::Lost { name, reason, .. } = event {
    ///             eprintln!("lock {name}: {reason}");
    ///         }
    ///     })
    ///     .connect()
    ///     .await?;
    /// # drop(keeper);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    pub fn on_event(mut self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.events = self.events.to(callback);
        self
    }

    /// Gives the metrics of locks a label `group`, which the function `group` makes from the name
    /// of a lock: for example the part before the first `/`. A recorder keeps each group for ever,
    /// so a program should have few groups: from the hundredth on the label is `other`.
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
    pub fn metrics_group(
        mut self,
        group: impl Fn(&LockName) -> String + Send + Sync + 'static,
    ) -> Self {
        self.events = self.events.grouped(group);
        self
    }

    /// The clock of the engine. The default is the machine's clock. Tests on virtual time set
    /// another clock, and the store needs the same one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Puts a layer around the store once it is open, for example around the store of a URL. The
    /// last of several layers is the outermost.
    pub fn layer<S: Store>(
        mut self,
        around: impl FnOnce(Arc<dyn Store>) -> S + Send + Sync + 'static,
    ) -> Self {
        self.layers.push(Layer(Box::new(|store| Arc::new(around(store)))));
        self
    }

    /// Opens the store if it is not open yet, and starts the engine.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an impossible setting,
    /// [`Unsupported`](ErrorKind::Unsupported) for a setting that the store does not support. Also
    /// the errors with which the store refuses to open.
    ///
    /// # Cancel safety
    /// The future may be dropped. It leaves nothing but the files that the store may have created.
    /// On a thread of its own, the opening may go on for up to 5 s.
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

    /// Starts the keeper, without the steps that only connecting can do.
    pub(crate) fn start(self) -> Result<Keeper> {
        let runtime = self.runtime()?;
        match self.source {
            Source::Store(store) => {
                let store = Stores::behind(store, &self.settings.prefix)?;
                Ok(Keeper::on(Engine::start(
                    store,
                    self.clock,
                    self.settings,
                    runtime,
                    self.events,
                )))
            }
            unopened => {
                Err(Error::new(ErrorKind::Internal, format!("{unopened:?} was not opened")))
            }
        }
    }

    fn runtime(&self) -> Result<Runtime> {
        if !self.dedicated {
            let runtime = Runtime::here_or_own()?;
            return runtime.check().map(|()| runtime);
        }
        if !self.clock.is_the_machines() {
            return Err(Error::invalid(
                "an engine on a thread of its own cannot use the clock of a tokio runtime",
            )
            .with_remedy("Clock::holder() with dedicated_thread()"));
        }
        Runtime::own()
    }

    fn refuse(&mut self, problem: Error) {
        self.problem.get_or_insert(problem);
    }
}

impl Stores {
    /// The engine knows names without the prefix; only this layer adds it.
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
            Err(Error::new(ErrorKind::Unsupported, problem)
                .with_remedy("a store with stronger fencing"))
        }
        _ if settings.epoch > 0 && !can.epochs => Err(refusal::no_epoch()),
        _ => can.check(&SessionSpec::new(settings.ttl, settings.lock_delay)),
    };
    checked.map_err(|error| error.at(&store.to_string()))
}

/// Sets the parameters of a URL, which the builder can replace.
fn set(settings: &mut Settings, url: &CommonParams) {
    settings.ttl = url.ttl.unwrap_or(settings.ttl);
    settings.epoch = url.epoch.unwrap_or(settings.epoch);
    settings.max_waiters = url.max_waiters.unwrap_or(settings.max_waiters);
    if let Some(prefix) = &url.prefix {
        settings.prefix.clone_from(prefix);
    }
}
