//! One attempt to acquire, as its caller sees it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::engine::{Attempt, Engine, Granted, Patience, Request};
use crate::event::Event;
use crate::runtime::{Task, poll_inside};
use crate::time::Instant;
use crate::{Error, ErrorKind, Guard, LostReason, Mode, Owner, Release, Result};

/// The longest reason, in bytes.
const REASON_MAX: usize = 1024;
/// How long an attempt may take, whatever its wait, before the store has answered at all.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

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
    engine: Arc<Engine>,
    request: Request,
    mode: Mode,
    waits: bool,
    wait: Option<Duration>,
    problem: Option<Error>,
    result: PhantomData<fn() -> G>,
}

/// What an attempt can result in: a guard, or perhaps a guard.
pub trait Outcome: sealed::Sealed + Sized {}

mod sealed {
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
    fn problem(&mut self) -> Option<Error> {
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

impl<G: Outcome> IntoFuture for Acquire<G> {
    type Output = Result<G>;
    type IntoFuture = Acquiring<G>;

    fn into_future(mut self) -> Acquiring<G> {
        let state = match self.problem() {
            Some(error) => State::Failed(Some(error)),
            None => State::New,
        };
        self.request.queue = self.waits;
        Acquiring { acquire: self, state }
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

/// The future of an [`Acquire`].
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring<G> {
    acquire: Acquire<G>,
    state: State,
}

enum State {
    Failed(Option<Error>),
    New,
    Running(Running),
    Over,
}

struct Running {
    /// `None` once it has come to its end.
    task: Option<Task<Result<Option<Granted>>>>,
    patience: Arc<Patience>,
    began: Instant,
    limit: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<G: Outcome> Future for Acquiring<G> {
    type Output = Result<G>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<G>> {
        let this = &mut *self;
        if matches!(this.state, State::New) {
            this.state = State::Running(this.acquire.start());
        }
        let polled = match &mut this.state {
            State::Failed(error) => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
            State::Running(running) => this.acquire.advance(running, cx),
            State::New | State::Over => Poll::Pending,
        };
        if polled.is_ready() {
            this.hand_over();
        }
        polled
    }
}

impl<G: Outcome> Acquire<G> {
    fn start(&self) -> Running {
        let engine = &self.engine;
        let patience = Arc::new(Patience::default());
        let began = engine.now();
        let attempt = Attempt {
            engine: Arc::clone(engine),
            request: self.request.clone(),
            patience: Arc::clone(&patience),
            began,
        };
        let span = tracing::debug_span!(target: "lockkeeper", "lock.acquire", lock = %self.request.name);
        let mut task: Task<Result<Option<Granted>>> = Box::pin(attempt.run().instrument(span));
        if engine.runtime.is_own() && engine.usable_here() {
            task = elsewhere(engine, task);
        }
        let limit = self.wait.filter(|_| self.waits).map(|wait| sleep(engine, wait));
        Running { task: Some(task), patience, began, limit }
    }

    fn advance(&self, running: &mut Running, cx: &mut Context<'_>) -> Poll<Result<G>> {
        let engine = &self.engine;
        if let Poll::Ready(result) = running.poll(engine, cx) {
            return Poll::Ready(self.conclude(result, running.began));
        }
        let Some(limit) = &mut running.limit else { return Poll::Pending };
        if poll_inside(&engine.runtime, limit, cx).is_pending() {
            return Poll::Pending;
        }
        let took = engine.now().saturating_since(running.began);
        if !running.patience.has_answer() && took < FIRST_ANSWER {
            let mut more = sleep(engine, FIRST_ANSWER - took);
            let polled = poll_inside(&engine.runtime, &mut more, cx);
            debug_assert!(polled.is_pending(), "a sleep of some time is not over at once");
            running.limit = Some(more);
            return Poll::Pending;
        }
        running.patience.give_up();
        // Whoever only waits gives up in place; whoever is in the middle of a store call is finished by the engine.
        match running.poll(engine, cx) {
            Poll::Ready(result) => Poll::Ready(self.conclude(result, running.began)),
            Poll::Pending => Poll::Ready(self.out_of_time(&running.patience, took)),
        }
    }

    fn conclude(&self, result: Result<Option<Granted>>, began: Instant) -> Result<G> {
        match result {
            Ok(Some(granted)) => {
                let waited = self.engine.now().saturating_since(began);
                let guard = Guard::new(granted, self.mode, self.request.owner.clone());
                let (name, token) = (guard.name(), guard.token());
                self.engine.events.emit(&Event::Acquired { name, token, waited });
                Ok(G::held(guard))
            }
            Ok(None) => G::busy(self.timeout()),
            Err(error) if error.kind() == ErrorKind::Timeout => G::busy(error),
            Err(error) => Err(error),
        }
    }

    fn out_of_time(&self, patience: &Patience, took: Duration) -> Result<G> {
        if patience.has_answer() {
            return G::busy(self.timeout());
        }
        let why = patience.last_error().map_or_else(String::new, |e| format!(": {}", e.message()));
        let error = Error::new(
            ErrorKind::Unavailable,
            format!("{} did not answer within {:.1} s{why}", self.engine.store, took.as_secs_f32()),
        );
        Err(error.with_unknown_effect().about(self.request.name.clone()))
    }

    fn timeout(&self) -> Error {
        let message =
            if self.waits { "others held it for as long as the attempt was to wait" } else { "others hold it" };
        Error::new(ErrorKind::Timeout, message)
            .with_remedy("a longer wait, or inspect it to see who holds it")
            .about(self.request.name.clone())
    }
}

impl Running {
    fn poll(&mut self, engine: &Engine, cx: &mut Context<'_>) -> Poll<Result<Option<Granted>>> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let polled = poll_inside(&engine.runtime, task, cx);
        if polled.is_ready() {
            self.task = None;
        }
        polled
    }
}

impl<G> Acquiring<G> {
    /// What has begun comes to its end, with or without its caller.
    fn hand_over(&mut self) {
        let State::Running(running) = std::mem::replace(&mut self.state, State::Over) else { return };
        let Some(task) = running.task else { return };
        running.patience.give_up();
        let engine = &self.acquire.engine;
        if engine.usable_here() {
            engine.runtime.finish(async move { drop(task.await) });
        } else {
            // In a forked child nothing may be sent, and dropping the attempt would do just that.
            std::mem::forget(task);
        }
    }
}

impl<G> Drop for Acquiring<G> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl<G> fmt::Debug for Acquiring<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acquiring").field(&self.acquire).finish()
    }
}

fn sleep(engine: &Engine, d: Duration) -> Task<()> {
    let clock = engine.clock.clone();
    Box::pin(async move { clock.sleep(d).await })
}

/// The engine has a thread of its own, which goes on when the caller's is blocked: the attempt runs there.
fn elsewhere(engine: &Engine, task: Task<Result<Option<Granted>>>) -> Task<Result<Option<Granted>>> {
    let (done, result) = oneshot::channel();
    engine.runtime.finish(async move {
        // Nobody listens any more: the grant is dropped, and so withdrawn.
        let _ = done.send(task.await);
    });
    Box::pin(async move {
        let gone = || Error::new(ErrorKind::Closed, "the engine's thread has ended");
        result.await.unwrap_or_else(|_| Err(gone()))
    })
}
