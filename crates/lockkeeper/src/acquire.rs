//! One attempt to acquire, as its caller sees it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Request};
use crate::{Error, ErrorKind, Guard, LostReason, Mode, Owner, Release, Result};

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
/// # Cancel safety
/// Dropped at any await it leaves the line, and a grant that was on its way is given back. Nothing has to be cleaned
/// up by the caller.
#[must_use = "an attempt does nothing until it is awaited"]
pub struct Acquire<G> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Request,
    pub(crate) mode: Mode,
    pub(crate) waits: bool,
    pub(crate) wait: Option<Duration>,
    problem: Option<Error>,
    result: PhantomData<fn() -> G>,
}

/// What an attempt can result in: a guard, or perhaps a guard.
pub trait Outcome: sealed::Sealed + Sized {}

pub(crate) mod sealed {
    use super::{Error, Guard, Result};

    pub trait Sealed: Sized {
        /// What a busy lock is: an error, or an answer.
        fn busy(error: Error) -> Result<Self>;
        fn held(guard: Guard) -> Self;
    }
}

impl sealed::Sealed for Guard {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard) -> Self {
        guard
    }
}

impl sealed::Sealed for Option<Guard> {
    fn busy(_: Error) -> Result<Self> {
        Ok(None)
    }

    fn held(guard: Guard) -> Self {
        Some(guard)
    }
}

impl Outcome for Guard {}
impl Outcome for Option<Guard> {}

impl<G: Outcome> Acquire<G> {
    pub(crate) fn new(engine: &Arc<Engine>, request: Request, mode: Mode) -> Self {
        let waits = request.queue;
        let mut acquire =
            Self { engine: Arc::clone(engine), request, mode, waits, wait: None, problem: None, result: PhantomData };
        acquire.request.max_hold = engine.settings.max_hold;
        acquire
    }

    /// How long to stand in line at most; zero is a try. `lock()` waits for ever unless this is set, `try_lock()`
    /// does not wait unless this is set.
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
        self.request.fixed = true;
        self.request.spec = crate::store::SessionSpec::new(d, self.request.spec.lock_delay);
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
            self.refuse("max_hold is zero: the lock would be lost at once");
        }
        self.request.max_hold = Some(d);
        self
    }

    /// Why, for people: shown to those who look at who holds the lock. At most 1024 bytes.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        if reason.len() > REASON_MAX {
            self.refuse(&format!("the reason has {} bytes; at most {REASON_MAX} fit", reason.len()));
        }
        self.request.reason = Some(reason.into());
        self
    }

    fn refuse(&mut self, problem: &str) {
        self.problem.get_or_insert_with(|| Error::invalid(problem).about(self.request.name.clone()));
    }

    /// What the store cannot do is refused before anything is sent.
    pub(crate) fn problem(&mut self) -> Option<Error> {
        let can = &self.engine.capabilities;
        let spec = &self.request.spec;
        let refused = if spec.ttl < can.ttl_min || spec.ttl > can.ttl_max {
            Some(format!("a ttl of {:?} is outside what it can do: {:?} to {:?}", spec.ttl, can.ttl_min, can.ttl_max))
        } else if spec.lock_delay > can.lock_delay_max {
            Some(format!("a lock-delay of {:?} is more than it can do: {:?}", spec.lock_delay, can.lock_delay_max))
        } else {
            None
        };
        let unsupported = refused
            .map(|message| self.engine.describe(Error::new(ErrorKind::Unsupported, message), &self.request.name));
        self.problem.take().or(unsupported)
    }
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
        let late = Error::lost(guard.name().clone(), LostReason::Expired);
        let released = guard.release().await;
        match (outcome, released) {
            (Ok(Err(own)), _) => Err(own),
            (Err(lost), _) => Err(E::from(lost)),
            (Ok(Ok(_)), Ok(Release::AlreadyLost)) => Err(E::from(late)),
            (Ok(Ok(value)), _) => Ok(value),
        }
    }
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("name", &self.request.name)
            .field("mode", &self.mode)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
