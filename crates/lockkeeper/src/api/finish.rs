//! A store call that its caller polls, and that the engine finishes after a drop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Result;
use crate::engine::Engine;
use crate::runtime::{Task, poll_inside};

/// The caller polls the call in place. If the caller drops it after the first poll, the engine
/// polls it to its end. An engine with a thread of its own does so from the first poll on.
pub(crate) struct Finish<T: Send + 'static> {
    engine: Arc<Engine>,
    task: Option<Task<Result<T>>>,
    started: bool,
    /// Whether the runtime existed at the start of the call.
    in_runtime: bool,
}

impl<T: Send + 'static> Finish<T> {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            task: Some(Box::pin(task)),
            started: false,
            in_runtime: false,
        }
    }
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let runtime = &this.engine.runtime;
        if !std::mem::replace(&mut this.started, true) {
            this.in_runtime = !this.engine.lifetime.has_no_runtime();
            if runtime.is_own() && this.engine.lifetime.is_here() {
                this.task = this.task.take().map(|task| runtime.carry(task));
            }
        } else if ((this.in_runtime && this.engine.lifetime.has_no_runtime())
            || !this.engine.lifetime.is_here())
            && let Err(error) = this.engine.usable()
        {
            // The call may have timers of an ended runtime, which may not be polled; a forked child
            // gets no answers.
            return Poll::Ready(Err(error.with_unknown_effect()));
        }
        let Some(task) = &mut this.task else { return Poll::Pending };
        let engine = &this.engine;
        let polled = engine.lifetime.unless_ended(|| poll_inside(&engine.runtime, task, cx));
        let polled = polled.unwrap_or_else(|error| Poll::Ready(Err(error)));
        if polled.is_ready() {
            this.task = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        if self.engine.lifetime.is_here() {
            if self.started {
                self.engine.runtime.finish(async move { drop(task.await) });
            }
        } else {
            // In a forked child no request may be sent, and a drop of the task would send one.
            std::mem::forget(task);
        }
    }
}

/// Polls all futures until the last is ready. The first poll of each comes before the second poll
/// of any.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in &mut running {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
