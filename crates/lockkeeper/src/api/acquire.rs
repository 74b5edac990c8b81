//! One attempt to acquire a lock: its settings and its result.

mod acquired;
mod with;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use self::acquired::Acquired;
use super::handle::Handle;
use crate::engine::{Engine, Request};
use crate::store::SessionSpec;
use crate::{Error, ErrorKind, Guard, LockName, Owner, Result};

/// The maximum length of a reason, in bytes.
const REASON_MAX: usize = 1024;

/// An attempt to acquire a lock. Set its options, then await it. The result is `G`.
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
/// - [`Timeout`](ErrorKind::Timeout): other holders kept the lock for the whole wait (`try_lock`
///   returns `None` instead).
/// - [`Unavailable`](ErrorKind::Unavailable): the store did not answer. An attempt that has a place
///   in the queue goes on waiting.
/// - [`Invalid`](ErrorKind::Invalid), [`Unsupported`](ErrorKind::Unsupported): a setting is
///   impossible, or this store does not support it.
/// - [`Mismatch`](ErrorKind::Mismatch), [`QueueFull`](ErrorKind::QueueFull),
///   [`WouldDeadlock`](ErrorKind::WouldDeadlock), [`Denied`](ErrorKind::Denied),
///   [`Closed`](ErrorKind::Closed), [`Forked`](ErrorKind::Forked).
///
/// An attempt that does not wait ends within 5 s for each of its locks. If the store has not
/// answered by then, the error is [`Unavailable`](ErrorKind::Unavailable).
///
/// After a wait in the queue, the first renewal comes 5 ms after the grant. Until then the lock has
/// the rest of the waiter's lease: at least half of the ttl, or 2.5 s if the ttl is longer than 5
/// s. Work that blocks the thread of a current-thread runtime for longer than that loses the lock.
/// Connect such a program with [`dedicated_thread`](crate::KeeperBuilder::dedicated_thread).
///
/// # Cancel safety
/// Dropping the future at any await gives up the place in the queue, and gives back a grant that
/// was on its way. The caller has nothing to clean up.
///
/// A future that was polled, and is then neither polled nor dropped, keeps its place in the queue.
/// If the store grants it the lock and no poll collects the grant within the lease of a waiter (the
/// ttl, at most 5 s), the engine gives the lock back, with [`Event::Lost`](crate::Event::Lost) and
/// [`Uncollected`](crate::LostReason::Uncollected). An attempt on several locks also gives back the
/// locks that it already has. If the future is polled again, the attempt goes to the end of the
/// queue. A keeper with a [thread of its own](crate::KeeperBuilder::dedicated_thread) keeps such a
/// grant for at least 15 s, since its callers may block. Tasks of the same process that wait behind
/// the attempt get places of their own in the store's queue 15 s to 30 s after their wait began.
#[must_use = "an attempt does nothing until it is awaited"]
pub struct Acquire<G> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Request,
    /// Further locks, acquired after the lock of the request, all or nothing.
    pub(crate) also: Vec<Part>,
    pub(crate) waits: bool,
    pub(crate) wait: Option<Duration>,
    problem: Option<Error>,
    result: PhantomData<fn() -> G>,
}

/// One lock of an attempt on several locks.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: LockName,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
}

impl<G: Acquired> Acquire<G> {
    /// An attempt. Without another setting it waits for ever if `waits` is set, and otherwise not
    /// at all.
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

    /// Adds further locks, in this order.
    pub(crate) fn and(mut self, also: Vec<Part>) -> Self {
        self.also = also;
        self
    }

    /// The requests for the further locks, with the settings of the first.
    pub(crate) fn further_requests(&self) -> impl Iterator<Item = Request> {
        self.also.iter().map(|part| {
            let Part { name, weight, capacity } = part.clone();
            Request { name, weight, capacity, ..self.request.clone() }
        })
    }

    /// The longest time in the queue. Zero is a single try, and `Duration::MAX` is no limit.
    /// Without this setting, `lock()` waits for the keeper's
    /// [`default_wait`](crate::KeeperBuilder::default_wait) (by default without a limit), and
    /// `try_lock()` does not wait.
    ///
    /// `d` limits the wait for other holders. A store that does not answer at all gets 3 s even if
    /// `d` is shorter.
    pub fn wait(mut self, d: Duration) -> Self {
        self.waits = !d.is_zero();
        self.wait = Some(d);
        self
    }

    /// A fixed lease of `d` in place of the lock's ttl. The engine renews it while the attempt
    /// waits and once at the grant, and never again. After `d` the lock is no longer held, even
    /// without a release.
    pub fn lease(mut self, d: Duration) -> Self {
        let detached = self.request.spec.detached;
        self.request.fixed = true;
        self.request.spec = SessionSpec::new(d, self.request.spec.lock_delay);
        self.request.spec.detached = detached;
        self
    }

    /// The owner of the attempt, by which the engine detects a wait for a guard of the same owner:
    /// see [`Owner`].
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.request.owner = Some(owner.clone());
        self
    }

    /// The longest time to hold the lock, whatever its renewals. After `d` the lock is lost with
    /// [`MaxHold`](crate::LostReason::MaxHold). The default is the keeper's
    /// [`max_hold`](crate::KeeperBuilder::max_hold), if it has one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().max_hold(Duration::from_millis(50)).await?;
    /// assert_eq!(guard.lost().await, lockkeeper::LostReason::MaxHold);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    pub fn max_hold(mut self, d: Duration) -> Self {
        if d.is_zero() {
            let problem = Error::invalid("max_hold is zero: the lock would be lost at once");
            self.refuse(problem.with_remedy("the longest time that the work may take"));
        }
        self.request.max_hold = Some(d);
        self
    }

    /// The minimum hold: for `d` from the moment at which this attempt has the lock, the store
    /// gives the lock to no other. The store does so whether the holder releases the lock, crashes,
    /// is killed or loses it, and no process has to run for that. The default is zero, which is no
    /// minimum.
    ///
    /// A release before the end of `d` ends this hold at once, and the store keeps the lock for the
    /// rest of `d`. A release after it frees the lock. This program waits for the rest as all
    /// others do. Only an administrator's [`break`](crate::Admin::break_lock) ends a minimum hold
    /// early.
    ///
    /// When the attempt has the lock, it asks the store for the minimum hold with one more request,
    /// and returns after that. An attempt that gives up or is dropped before this request begins no
    /// minimum hold. An attempt that fails or is dropped during the request may have begun one. If
    /// the attempt loses the lock by then, it fails instead of waiting for its own kept lock: the
    /// error has an unknown [effect](crate::Error::effect), and says for how long the lock may be
    /// kept.
    ///
    /// For a reader or for permits, the store keeps their share only; permits that the holder has
    /// given back are free. An upgrade or a downgrade leaves the minimum hold as it is. If the
    /// owner already holds a reentrant mutex, `d` counts from this entry. If the attempt is on
    /// several locks, the store keeps each lock for `d` after the attempt has all of them.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let report = keeper.mutex("report/hourly")?;
    /// let guard = report.try_lock().min_hold(Duration::from_secs(3600)).await?.expect("the report is due");
    /// guard.release().await?;
    /// assert!(report.try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// If the store cannot keep the lock for so long, the attempt fails with
    /// [`Unsupported`](ErrorKind::Unsupported): see
    /// [`min_hold_max`](crate::store::Capabilities::min_hold_max).
    pub fn min_hold(mut self, d: Duration) -> Self {
        self.request.min_hold = d;
        self
    }

    /// Waits without a place in the queue. Whenever the queue moves, the attempt tries again, in
    /// competition with other unfair attempts. It never overtakes a waiter in the queue, so a
    /// steady stream of waiters may keep it waiting for ever. An attempt that does not wait stays
    /// as it is.
    ///
    /// On a store without a queue, every attempt is unfair.
    pub fn unfair(mut self) -> Self {
        self.request.unfair = true;
        self
    }

    /// The reason for the attempt, at most 1024 bytes. [`Keeper::inspect`](crate::Keeper::inspect)
    /// shows it to people.
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

    /// Refuses a setting that the store cannot fulfil, before any request is sent.
    pub(crate) fn problem(&mut self) -> Option<Error> {
        let can = &self.engine.capabilities;
        let spec = &self.request.spec;
        let kinds = std::iter::once((self.request.weight, self.request.capacity));
        let mut kinds = kinds.chain(self.also.iter().map(|part| (part.weight, part.capacity)));
        // What no setting changes comes first.
        let detached = match spec.detached && !can.resumable {
            true => Err(none_detached()),
            false => Ok(()),
        };
        let refused = detached
            .and_then(|()| kinds.try_for_each(|(weight, capacity)| can.admits(weight, capacity)))
            .and_then(|()| can.check(spec))
            .and_then(|()| can.keeps(self.request.min_hold));
        let unsupported =
            refused.err().map(|error| self.engine.describe(error, &self.request.name));
        self.problem.take().or(unsupported)
    }
}

fn none_detached() -> Error {
    let problem = "its locks end with the connection that acquired them, so none can be detached";
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("a process that holds the lock (lockkeeper run), or a store of another kind")
}

impl<G> Acquire<G> {
    /// The same attempt with a result of another type.
    pub(crate) fn resulting<R>(self) -> Acquire<R> {
        let Self { engine, request, also, waits, wait, problem, result: _ } = self;
        Acquire { engine, request, also, waits, wait, problem, result: PhantomData }
    }

    /// The request of this attempt, with all options of `other`, an attempt on the same lock.
    #[cfg(feature = "blocking")]
    pub(crate) fn with_options_of<H>(mut self, other: Acquire<H>) -> Self {
        let Request { name, weight, capacity, reenters, value, .. } = self.request;
        self.request = Request { name, weight, capacity, reenters, value, ..other.request };
        if other.wait.is_some() {
            (self.waits, self.wait) = (other.waits, other.wait);
        }
        self.problem = self.problem.or(other.problem);
        self
    }

    /// The name of the lock at this place, counted from 0.
    pub(crate) fn name_of(&self, part: usize) -> &LockName {
        let further = part.checked_sub(1).and_then(|i| self.also.get(i));
        further.map_or(&self.request.name, |part| &part.name)
    }
}

/// Checks the length of a reason of an attempt or of a break.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) if the reason is too long.
pub(crate) fn check_reason(reason: &str) -> Result<()> {
    if reason.len() <= REASON_MAX {
        return Ok(());
    }
    let problem = format!("the reason has {} bytes", reason.len());
    Err(Error::invalid(problem).with_remedy(format!("at most {REASON_MAX}")))
}

impl Acquire<Guard> {
    /// Acquires a lock that outlives this process. The result is a [`Handle`] instead of a guard,
    /// for a job whose steps are separate processes. No keeper renews the lock. The lock ends `ttl`
    /// after the grant, or `ttl` after the last [`renew_once`](Guard::renew_once) of a guard that
    /// [adopted](crate::Keeper::adopt) it, or when such a guard releases it. `ttl` takes the place
    /// of the lock's ttl; `max_hold` has no effect.
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
    /// On a store whose locks end with a connection, the attempt fails with
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn detached(self, ttl: Duration) -> Acquire<Handle> {
        let mut detached = self.lease(ttl).resulting();
        detached.request.spec.detached = true;
        if detached.request.reenters {
            let problem = Error::invalid(
                "a reentrant mutex cannot be detached: its owner may have other guards",
            );
            detached.refuse(problem.with_remedy("a mutex of the same name"));
        }
        detached
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
