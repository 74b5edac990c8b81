//! Several futures of one case side by side. Each future is polled only when it asks for a poll.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use lockkeeper_core::sync::lock;

/// Drives all futures to their end, and returns their outputs in order. A future that counts its
/// polls gets no poll because of another future.
pub(super) async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(Slot::new).collect();
    poll_fn(|cx| {
        let ended = slots.iter_mut().map(|slot| slot.poll(cx)).filter(|ended| *ended).count();
        if ended == slots.len() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    slots.into_iter().filter_map(|slot| slot.output).collect()
}

struct Slot<F: Future> {
    future: Pin<Box<F>>,
    output: Option<F::Output>,
    wish: Arc<Wish>,
}

impl<F: Future> Slot<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), output: None, wish: Arc::new(Wish::new()) }
    }

    /// Polls the future if it has asked for a poll. Returns whether the future has ended.
    fn poll(&mut self, cx: &Context<'_>) -> bool {
        if self.output.is_none() && self.wish.take(cx.waker()) {
            let waker = Waker::from(Arc::clone(&self.wish));
            if let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                self.output = Some(output);
            }
        }
        self.output.is_some()
    }
}

/// Whether a future has asked for a poll, and the waker of the task that polls all futures.
struct Wish {
    is_made: AtomicBool,
    task: Mutex<Waker>,
}

impl Wish {
    fn new() -> Self {
        Self { is_made: AtomicBool::new(true), task: Mutex::new(Waker::noop().clone()) }
    }

    fn take(&self, task: &Waker) -> bool {
        // The waker is set first, so that a wish from now on wakes the task again.
        lock(&self.task).clone_from(task);
        self.is_made.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Wish {
    fn wake(self: Arc<Self>) {
        self.is_made.store(true, Ordering::Release);
        lock(&self.task).wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_future_is_polled_only_when_it_asks_for_it() {
        let counted = |wait: u64| async move {
            let (mut sleep, polls) =
                (Box::pin(tokio::time::sleep(Duration::from_secs(wait))), Cell::new(0));
            poll_fn(|cx| {
                polls.set(polls.get() + 1);
                sleep.as_mut().poll(cx)
            })
            .await;
            (wait, polls.get())
        };
        let all = together((1..=8).map(counted)).await;
        assert_eq!(all, (1..=8).map(|wait| (wait, 2)).collect::<Vec<_>>());
    }
}
