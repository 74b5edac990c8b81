//! The future of an attempt. The caller polls it in place, its wait limits it, and the engine takes
//! it over when it is dropped.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::{Instrument, Span};

use super::acquire::{Acquire, Acquired};
use crate::engine::{
    AllGranted, Attempt, AttemptControl, Attempts, Engine, Granted, kept_from_all, offer,
};
use crate::event::{Event, Missed};
use crate::runtime::{Task, poll_inside};
use crate::time::Instant;
use crate::{Error, ErrorKind, Guard, LockName, Result};

/// How long the first answer of the store may take, even if the wait of the attempt is shorter.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// How long an attempt that does not wait may take for each of its locks.
const TRY: Duration = Duration::from_secs(5);

impl<G: Acquired> IntoFuture for Acquire<G> {
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

/// The guard of each lock.
type Guards = (Guard, Vec<Guard>);

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
    /// The attempt; `None` after its end.
    task: Option<Task<Result<AllGranted>>>,
    control: Arc<AttemptControl>,
    began: Instant,
    span: Span,
    limit: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whether the limit was extended already, for a store that is asked to keep the lock.
    waits_to_keep: bool,
}

impl<G: Acquired> Future for Acquiring<G> {
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
            State::Running(running) => {
                let polled =
                    this.acquire.engine.lifetime.unless_ended(|| this.acquire.advance(running, cx));
                let name = |running: &Running| this.acquire.name_of(running.control.part()).clone();
                polled.unwrap_or_else(|error| Poll::Ready(Err(error.about(name(running)))))
            }
            State::New | State::Over => Poll::Pending,
        };
        let Poll::Ready(ended) = polled else { return Poll::Pending };
        if let Err(error) = &ended {
            this.report_missed(error);
        }
        this.hand_over();
        Poll::Ready(match ended {
            Ok((guard, also)) => Ok(G::held(guard, also)),
            Err(error) if error.kind() == ErrorKind::Timeout => G::busy(error),
            Err(error) => Err(error),
        })
    }
}

impl<G: Acquired> Acquire<G> {
    fn start(&self) -> Running {
        let engine = &self.engine;
        let control = Arc::new(AttemptControl::default());
        let began = engine.now();
        let attempt = |request| Attempt {
            engine: Arc::clone(engine),
            request,
            control: Arc::clone(&control),
            began,
        };
        let attempts = Attempts {
            first: attempt(self.request.clone()),
            also: self.further_requests().map(attempt).collect(),
        };
        let span =
            tracing::debug_span!(target: "lockkeeper", "lock.acquire", lock = %self.request.name);
        let mut task: Task<Result<AllGranted>> = Box::pin(attempts.run().instrument(span.clone()));
        if engine.runtime.is_own() && engine.lifetime.is_here() {
            // The caller may never poll again. So the engine's thread polls the attempt, and offers
            // the result.
            task = engine.runtime.carry(Box::pin(async move { task.await.inspect(offer) }));
        }
        let locks = u32::try_from(self.also.len()).unwrap_or(u32::MAX).saturating_add(1);
        let within = if self.waits { self.wait } else { Some(TRY.saturating_mul(locks)) };
        let limit = within.map(|within| sleep(engine, within));
        Running { task: Some(task), control, began, span, limit, waits_to_keep: false }
    }

    fn advance(&self, running: &mut Running, cx: &mut Context<'_>) -> Poll<Result<Guards>> {
        let engine = &self.engine;
        if (engine.lifetime.has_no_runtime() || !engine.lifetime.is_here())
            && let Err(error) = engine.usable()
        {
            // The timers of an ended runtime may not be polled, and a forked child gets no answers.
            let name = self.name_of(running.control.part()).clone();
            return Poll::Ready(Err(self.that_may_be_kept(&running.control, error.about(name))));
        }
        if let Poll::Ready(result) = running.poll(engine, cx) {
            return Poll::Ready(self.conclude(result, running));
        }
        let Some(limit) = &mut running.limit else { return Poll::Pending };
        if poll_inside(&engine.runtime, limit, cx).is_pending() {
            return Poll::Pending;
        }
        let took = engine.now().saturating_since(running.began);
        let more = if running.control.is_keeping() {
            // The lock is granted. If the attempt gave up now, the store would keep a lock that no
            // client uses.
            (!std::mem::replace(&mut running.waits_to_keep, true)).then_some(FIRST_ANSWER)
        } else {
            FIRST_ANSWER
                .checked_sub(took)
                .filter(|more| !running.control.has_answer() && !more.is_zero())
        };
        if let Some(more) = more {
            let mut more = sleep(engine, more);
            // The timer is over at its first poll only if this thread stood still meanwhile.
            if poll_inside(&engine.runtime, &mut more, cx).is_pending() {
                running.limit = Some(more);
                return Poll::Pending;
            }
        }
        running.control.give_up();
        // An attempt that only waits gives up in place. The engine finishes an attempt that is
        // inside a store call.
        let polled = running.poll(engine, cx);
        let has_given_up = |result: &Result<_>| {
            result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout)
        };
        Poll::Ready(match polled {
            Poll::Ready(result) if running.control.has_answer() || !has_given_up(&result) => {
                self.conclude(result, running)
            }
            _ => self.out_of_time(&running.control, took),
        })
    }

    fn conclude(&self, result: Result<AllGranted>, running: &Running) -> Result<Guards> {
        let guard = |granted| self.guard(granted, running);
        result.map(|(first, also)| (guard(first), also.into_iter().map(guard).collect()))
    }

    fn guard(&self, granted: Granted, running: &Running) -> Guard {
        let waited = self.engine.now().saturating_since(running.began);
        let again = granted.is_again();
        let guard = Guard::new(granted, self.request.owner.clone(), waited);
        if again {
            return guard;
        }
        let (name, token, mode) = (guard.name(), guard.token(), guard.mode());
        running
            .span
            .in_scope(|| self.engine.events.emit(&Event::Acquired { name, token, mode, waited }));
        guard
    }

    fn out_of_time(&self, control: &AttemptControl, took: Duration) -> Result<Guards> {
        let name = self.name_of(control.part()).clone();
        if control.has_answer() && !control.is_keeping() {
            let error = Error::new(
                ErrorKind::Timeout,
                "others held it, or waited for it, for the whole wait",
            );
            return Err(error
                .with_remedy("a longer wait, or inspect it to see who holds it")
                .about(name));
        }
        let last = control.last_error();
        let why = last.as_ref().map_or_else(String::new, |e| format!(": {}", e.message()));
        let remedy =
            last.as_ref().and_then(Error::remedy).unwrap_or("again when the store is back");
        let error = Error::new(
            ErrorKind::Unavailable,
            format!("{} did not answer within {:.1} s{why}", self.engine.store, took.as_secs_f32()),
        );
        let error = error.with_remedy(remedy).with_unknown_effect().about(name);
        Err(self.that_may_be_kept(control, error))
    }

    /// Adds to an error that the store may keep the locks, if the attempt has asked for that.
    fn that_may_be_kept(&self, control: &AttemptControl, error: Error) -> Error {
        if !control.is_keeping() {
            return error;
        }
        let names: Vec<_> = (0..=self.also.len()).map(|part| self.name_of(part)).collect();
        kept_from_all(error.with_unknown_effect(), &names, self.request.min_hold)
    }
}

impl Running {
    fn poll(&mut self, engine: &Engine, cx: &mut Context<'_>) -> Poll<Result<AllGranted>> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let polled = poll_inside(&engine.runtime, task, cx);
        if polled.is_ready() {
            self.task = None;
        }
        polled
    }
}

impl<G> Acquiring<G> {
    /// Reports that the attempt has ended without the lock.
    fn report_missed(&self, error: &Error) {
        let outcome = Missed::by(error, self.acquire.waits);
        let (name, waited, span) = self.missed();
        let engine = &self.acquire.engine;
        // A forked child reports no events.
        if engine.lifetime.is_here() {
            span.in_scope(|| {
                engine.events.emit(&Event::NotAcquired {
                    name,
                    outcome,
                    waited,
                    error: Some(error),
                });
            });
        }
    }

    fn report_cancelled(&self) {
        let (name, waited, span) = self.missed();
        let (engine, name) = (Arc::clone(&self.acquire.engine), name.clone());
        if engine.lifetime.is_here() {
            let events = Arc::clone(&engine);
            engine.runtime.aside(move || {
                let cancelled = Event::NotAcquired {
                    name: &name,
                    outcome: Missed::Cancelled,
                    waited,
                    error: None,
                };
                span.in_scope(|| events.events.emit(&cancelled));
            });
        }
    }

    /// The missed lock, and how long the attempt tried.
    fn missed(&self) -> (&LockName, Duration, Span) {
        match &self.state {
            State::Running(running) => {
                let waited = self.acquire.engine.now().saturating_since(running.began);
                (self.acquire.name_of(running.control.part()), waited, running.span.clone())
            }
            State::Failed(_) | State::New | State::Over => {
                (&self.acquire.request.name, Duration::ZERO, Span::none())
            }
        }
    }

    /// Lets the engine finish an attempt that has begun, without its caller.
    fn hand_over(&mut self) {
        let State::Running(running) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        let Some(task) = running.task else { return };
        running.control.give_up();
        let engine = &self.acquire.engine;
        if engine.lifetime.is_here() {
            engine.runtime.finish(async move { drop(task.await) });
        } else {
            // In a forked child no request may be sent, and a drop of the attempt would send one. A
            // drop of a timer locks a mutex of the runtime, which a thread that does not exist here
            // may hold.
            std::mem::forget((task, running.limit));
        }
    }
}

impl<G> Drop for Acquiring<G> {
    fn drop(&mut self) {
        if let State::Running(Running { task: Some(_), .. }) = &self.state {
            self.report_cancelled();
        }
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::Keeper;

    #[tokio::test]
    async fn an_attempt_that_goes_on_in_a_forked_child_ends_there() {
        let keeper = Keeper::memory();
        let _held = keeper.mutex("n").unwrap().lock().await.unwrap();
        let mut attempt =
            keeper.mutex("n").unwrap().lock().wait(Duration::from_secs(60)).into_future();
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut attempt).poll(cx).is_pending())).await);
        attempt.acquire.engine.lifetime.pretend_to_be_forked();
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut attempt).poll(cx))).await;
        let Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
        assert_eq!(error.kind(), crate::ErrorKind::Forked);
    }

    #[tokio::test]
    async fn an_attempt_that_is_dropped_in_a_forked_child_drops_no_timer() {
        let keeper = Keeper::memory();
        let _held = keeper.mutex("n").unwrap().lock().await.unwrap();
        let mut attempt =
            keeper.mutex("n").unwrap().lock().wait(Duration::from_secs(60)).into_future();
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut attempt).poll(cx).is_pending())).await);
        let timer = Arc::new(());
        let dropped = Arc::downgrade(&timer);
        let State::Running(running) = &mut attempt.state else { panic!("it waits") };
        running.limit = Some(Box::pin(async move {
            let _timer = timer;
            std::future::pending().await
        }));
        attempt.acquire.engine.lifetime.pretend_to_be_forked();
        drop(attempt);
        assert!(dropped.upgrade().is_some());
    }
}
