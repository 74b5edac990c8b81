//! One attempt to acquire, as its caller sees it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Request};
use crate::guard::{covered, scoped};
use crate::handle::Handle;
use crate::store::{Expiry, SessionSpec};
use crate::{Error, ErrorKind, Guard, Leadership, LockName, MultiGuard, Owner, Result};

/// The longest reason, in bytes.
const REASON_MAX: usize = 1024;

/// An attempt to acquire: set what belongs to it, then await it. The result is `G`.
///
/// ```
/// use std::time::Duration;
///
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let deploy = keeper.mutex("deploy/web")?;
/// let guard = deploy.lock().wait(Duration::from_secs(900)).reason("build 4711").await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
///
/// # Errors
/// - [`Timeout`](ErrorKind::Timeout): others held the lock for as long as the attempt was to wait (`try_lock` answers
///   `None` instead).
/// - [`Unavailable`](ErrorKind::Unavailable): the store did not answer. One that stands in line goes on waiting.
/// - [`Invalid`](ErrorKind::Invalid), [`Unsupported`](ErrorKind::Unsupported): a setting that is impossible, or that
///   this store cannot do.
/// - [`Mismatch`](ErrorKind::Mismatch), [`QueueFull`](ErrorKind::QueueFull),
///   [`WouldDeadlock`](ErrorKind::WouldDeadlock), [`Denied`](ErrorKind::Denied), [`Closed`](ErrorKind::Closed),
///   [`Forked`](ErrorKind::Forked).
///
/// An attempt that does not wait is over within 5 s for each of its locks: a store that has not answered by then is
/// [`Unavailable`](ErrorKind::Unavailable).
///
/// After a wait in line the first renewal comes 5 ms after the grant, and until then the lock has what is left of a
/// waiter's life (at least half of the ttl, or of 5 s for a longer ttl). Work that blocks the thread of a current-thread
/// runtime for longer than that loses the lock: such a program connects with
/// [`dedicated_thread`](crate::KeeperBuilder::dedicated_thread).
///
/// # Cancel safety
/// Dropped at any await it leaves the line, and a grant that was on its way is given back. Nothing has to be cleaned
/// up by the caller.
///
/// A future that was polled and is polled no more, but not dropped, keeps its place in line. A lock that is granted to it
/// is given back when nobody has collected it for the life of a waiter (the ttl, at most 5 s), with
/// [`Event::Lost`](crate::Event::Lost) and [`Uncollected`](crate::LostReason::Uncollected); polled again, the attempt goes
/// to the end of the line. So are those that an attempt on several locks has got already. A keeper with a [thread of its own](crate::KeeperBuilder::dedicated_thread) serves callers that
/// block, and keeps such a grant for at least 15 s. Tasks of the same process that wait behind it stand in the store's
/// line by themselves 15 s to 30 s after they began to wait.
#[must_use = "an attempt does nothing until it is awaited"]
pub struct Acquire<G> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Request,
    /// Further locks, acquired after the one of the request, all or nothing.
    pub(crate) also: Vec<Part>,
    pub(crate) waits: bool,
    pub(crate) wait: Option<Duration>,
    problem: Option<Error>,
    result: PhantomData<fn() -> G>,
}

/// One lock of an attempt on several.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: LockName,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
}

/// What an attempt can result in: a guard, the guard of a multi-lock, a leadership, or perhaps one of these; or a
/// handle.
pub trait Acquired: sealed::Sealed + Sized {}

pub(crate) mod sealed {
    use super::{Error, Guard, Result};

    pub trait Sealed: Sized {
        /// What a busy lock is: an error, or an answer.
        fn busy(error: Error) -> Result<Self>;
        /// One guard, or with further locks one for each.
        fn held(guard: Guard, also: Vec<Guard>) -> Self;
    }

    /// What is not an option itself.
    pub trait Certain: Sealed {}
}

impl sealed::Sealed for Guard {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        guard
    }
}

impl sealed::Sealed for MultiGuard {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, also: Vec<Guard>) -> Self {
        Self::new(guard, also)
    }
}

impl<G: sealed::Certain> sealed::Sealed for Option<G> {
    fn busy(_: Error) -> Result<Self> {
        Ok(None)
    }

    fn held(guard: Guard, also: Vec<Guard>) -> Self {
        Some(G::held(guard, also))
    }
}

impl sealed::Sealed for Handle {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        guard.into_handle()
    }
}

impl sealed::Sealed for Leadership {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        Self::new(guard)
    }
}

impl Acquired for Guard {}
impl Acquired for Leadership {}
impl Acquired for Handle {}
impl Acquired for MultiGuard {}
impl<G: sealed::Certain> Acquired for Option<G> {}

impl sealed::Certain for Guard {}
impl sealed::Certain for Leadership {}
impl sealed::Certain for MultiGuard {}

impl<G: Acquired> Acquire<G> {
    /// An attempt that waits for ever, or not at all, where nothing else is set.
    pub(crate) fn new(engine: &Arc<Engine>, request: Request, waits: bool) -> Self {
        let mut acquire = Self {
            engine: Arc::clone(engine),
            request,
            also: Vec::new(),
            waits,
            wait: None,
            problem: None,
            result: PhantomData,
        };
        acquire.request.max_hold = engine.settings.max_hold;
        acquire.wait = engine.settings.default_wait.filter(|_| waits);
        acquire
    }

    /// The same attempt on further locks, in this order.
    pub(crate) fn and(mut self, also: Vec<Part>) -> Self {
        self.also = also;
        self
    }

    /// The locks after the first, asked for as the first is.
    pub(crate) fn further_requests(&self) -> impl Iterator<Item = Request> {
        self.also.iter().map(|part| {
            let Part { name, weight, capacity } = part.clone();
            Request { name, weight, capacity, ..self.request.clone() }
        })
    }

    /// How long to stand in line at most; zero is a try, and `Duration::MAX` is for ever. Unless this is set, `lock()`
    /// waits for the keeper's [`default_wait`](crate::KeeperBuilder::default_wait), which is for ever, and `try_lock()`
    /// does not wait.
    ///
    /// It bounds the waiting. A store that does not answer at all is given 3 s even if `d` is less.
    pub fn wait(mut self, d: Duration) -> Self {
        self.waits = !d.is_zero();
        self.wait = Some(d);
        self
    }

    /// A fixed lease: renewed while it waits and once at the grant, never again. After `d` the lock is lost, whether
    /// it was released or not. It takes the place of the lock's ttl.
    pub fn lease(mut self, d: Duration) -> Self {
        let detached = self.request.spec.detached;
        self.request.fixed = true;
        self.request.spec = SessionSpec::new(d, self.request.spec.lock_delay);
        self.request.spec.detached = detached;
        self
    }

    /// Who acquires, for finding a wait for oneself: see [`Owner`].
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.request.owner = Some(owner.clone());
        self
    }

    /// How long to hold it at most, renewals or not; then it is lost with
    /// [`MaxHold`](crate::LostReason::MaxHold). The keeper's own limit, if it has one, unless this is set.
    pub fn max_hold(mut self, d: Duration) -> Self {
        if d.is_zero() {
            let problem = Error::invalid("max_hold is zero: the lock would be lost at once");
            self.refuse(problem.with_remedy("the longest time that the work may take"));
        }
        self.request.max_hold = Some(d);
        self
    }

    /// How long nobody else gets the lock from the moment at which this attempt has it: whether the holder releases it,
    /// crashes, is killed or loses it, the store keeps it until `d` is over, and no process has to live for that. Zero,
    /// which is no minimum, unless this is set.
    ///
    /// A release before that time ends this hold at once, and leaves the rest to the store; a release after it frees the
    /// lock. This program waits for the rest as all others do. Only an administrator's
    /// [`break`](crate::Admin::break_lock) ends it.
    ///
    /// The attempt asks the store for it when it has the lock, which takes one more request, and returns after that. An
    /// attempt that gives up, or is dropped before, keeps nothing; one that is dropped, or fails, during that request may
    /// have begun its minimum hold.
    ///
    /// Readers and permits keep their share, and what they have given back of it is free. What was upgraded or downgraded
    /// keeps the minimum hold that it has. Where the owner holds a reentrant mutex already, `d` counts from this entry. Of
    /// several locks each is kept for `d` after all of them are held.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let report = keeper.mutex("report/hourly")?;
    /// let guard = report.try_lock().min_hold(Duration::from_secs(3600)).await?.expect("nobody was here within the hour");
    /// guard.release().await?;
    /// assert!(report.try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// On a store that cannot keep it for so long the attempt is [`Unsupported`](ErrorKind::Unsupported); see
    /// [`min_hold_max`](crate::store::Capabilities::min_hold_max).
    pub fn min_hold(mut self, d: Duration) -> Self {
        self.request.min_hold = d;
        self
    }

    /// Takes no place in line: whenever the line moves it tries again, against others that do the same. It never
    /// overtakes who stands in line, so under a steady stream of those it may wait for ever. Nothing changes for an
    /// attempt that does not wait.
    ///
    /// On a store without a queue every attempt is of this kind.
    pub fn unfair(mut self) -> Self {
        self.request.unfair = true;
        self
    }

    /// Why, for people: shown to those who look at who holds the lock. At most 1024 bytes.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        if let Err(problem) = check_reason(&reason) {
            self.refuse(problem);
        }
        self.request.reason = Some(reason.into());
        self
    }

    pub(crate) fn refuse(&mut self, problem: Error) {
        self.problem.get_or_insert_with(|| problem.about(self.request.name.clone()));
    }

    /// What the store cannot do is refused before anything is sent.
    pub(crate) fn problem(&mut self) -> Option<Error> {
        let can = &self.engine.capabilities;
        let spec = &self.request.spec;
        let kinds = std::iter::once((self.request.weight, self.request.capacity));
        let mut kinds = kinds.chain(self.also.iter().map(|part| (part.weight, part.capacity)));
        let refused = can
            .check(spec)
            .and_then(|()| can.keeps(self.request.min_hold))
            .and_then(|()| kinds.try_for_each(|(weight, capacity)| can.admits(weight, capacity)));
        let refused = refused.err().or_else(|| {
            let message = "its locks end with the connection that acquired them, so none can be detached";
            let is_impossible = spec.detached && !resumable(&can.expiry);
            is_impossible.then(|| Error::new(ErrorKind::Unsupported, message).with_remedy("a store of another kind"))
        });
        let unsupported = refused.map(|error| self.engine.describe(error, &self.request.name));
        self.problem.take().or(unsupported)
    }
}

impl<G> Acquire<G> {
    /// The lock that comes at this place, counted from 0.
    pub(crate) fn name_of(&self, part: usize) -> &LockName {
        let further = part.checked_sub(1).and_then(|i| self.also.get(i));
        further.map_or(&self.request.name, |part| &part.name)
    }
}

/// Whether this fits as the reason of an attempt or of a break.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) when it is too long.
pub(crate) fn check_reason(reason: &str) -> Result<()> {
    if reason.len() <= REASON_MAX {
        return Ok(());
    }
    let problem = format!("the reason has {} bytes", reason.len());
    Err(Error::invalid(problem).with_remedy(format!("at most {REASON_MAX}")))
}

impl Acquire<Guard> {
    /// Acquires the lock, runs `f` with the guard, and releases it.
    ///
    /// A loss drops the future of `f` at its next await. When `f` fails, its error is returned, whatever else went
    /// wrong. When it succeeds but the lock was lost before its end, the result is the loss. When only the release
    /// fails, the work was covered, and `f`'s value is returned.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let stock = keeper.mutex("stock/42")?;
    /// let sold = stock.lock().with(async |guard| {
    ///     guard.check()?;
    ///     Ok::<_, lockkeeper::Error>(3)
    /// });
    /// assert_eq!(sold.await?, 3);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the attempt, of `f`, or [`Lost`](ErrorKind::Lost).
    ///
    /// # Cancel safety
    /// Dropping it drops `f`'s future and the guard: the lock is released in the background.
    pub async fn with<T, E: From<Error>>(self, f: impl AsyncFnOnce(&Guard) -> Result<T, E>) -> Result<T, E> {
        let guard = self.await?;
        let outcome = guard.scope(f(&guard)).await;
        covered(outcome, guard.release().await)
    }
}

impl Acquire<MultiGuard> {
    /// Acquires the locks, runs `f` with the guard, and releases them: as the `with` of an attempt on one lock.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let transfer = keeper.multi_lock(["account/7", "account/3"])?;
    /// let tokens = transfer.lock().with(async |guard| {
    ///     guard.check()?;
    ///     Ok::<_, lockkeeper::Error>(guard.guards().len())
    /// });
    /// assert_eq!(tokens.await?, 2);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the attempt, of `f`, or [`Lost`](ErrorKind::Lost), which names the lock.
    ///
    /// # Cancel safety
    /// Dropping it drops `f`'s future and the guard: the locks are released in the background.
    pub async fn with<T, E: From<Error>>(self, f: impl AsyncFnOnce(&MultiGuard) -> Result<T, E>) -> Result<T, E> {
        let guard = self.await?;
        let outcome = guard.scope(f(&guard)).await;
        covered(outcome, guard.release().await)
    }
}

impl Acquire<Leadership> {
    /// Campaigns, runs `f` with the leadership, and resigns: as the `with` of an attempt on one lock.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let term = scheduler.campaign("10.0.0.7:8080").with(async |leadership| {
    ///     leadership.proclaim("ready").await?;
    ///     Ok::<_, lockkeeper::Error>(())
    /// });
    /// term.await?;
    /// assert!(scheduler.leader().await?.is_none());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the attempt, of `f`, or [`Lost`](ErrorKind::Lost).
    ///
    /// # Cancel safety
    /// Dropping it drops `f`'s future and the leadership: the leader resigns in the background.
    pub async fn with<T, E: From<Error>>(self, f: impl AsyncFnOnce(&mut Leadership) -> Result<T, E>) -> Result<T, E> {
        let mut leadership = self.await?;
        let (hold, lost) = (Arc::clone(leadership.guard().hold()), leadership.guard().lost());
        let outcome = scoped(|| hold.check(), lost, f(&mut leadership)).await;
        covered(outcome, leadership.resign().await)
    }
}

impl Acquire<Guard> {
    /// A lock that outlives this process: the result is a [`Handle`] instead of a guard, for steps of a job that are
    /// processes of their own. Nobody renews it by itself. It ends `life` after the grant, or after the last
    /// [`renew_once`](Guard::renew_once) of a guard that [adopted](crate::Keeper::adopt) it, or when such a guard
    /// releases it. `life` takes the place of the lock's ttl; a limit of `max_hold` has no effect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lockkeeper::Handle;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let handle = keeper.mutex("db/migrate")?.lock().detached(Duration::from_secs(1800)).await?;
    /// let text = handle.expose();
    ///
    /// // in another process, on the same store
    /// let handle: Handle = text.parse()?;
    /// let guard = keeper.adopt(handle)?;
    /// guard.renew_once().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// On a store whose locks end with a connection the attempt is [`Unsupported`](ErrorKind::Unsupported).
    pub fn detached(self, life: Duration) -> Acquire<Handle> {
        let Self { engine, request, also, waits, wait, problem, result: _ } = self.lease(life);
        let reenters = request.reenters;
        let mut detached = Acquire { engine, request, also, waits, wait, problem, result: PhantomData };
        detached.request.spec.detached = true;
        if reenters {
            let problem =
                Error::invalid("a guard of a reentrant mutex may be one of several, and cannot be given away");
            detached.refuse(problem.with_remedy("a mutex of the same name"));
        }
        detached
    }
}

fn resumable(expiry: &Expiry) -> bool {
    match expiry {
        Expiry::PerClaim => true,
        Expiry::Session { resumable, .. } => *resumable,
    }
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("name", &self.request.name)
            .field("also", &self.also)
            .field("mode", &self.request.mode())
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
