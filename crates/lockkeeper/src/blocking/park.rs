//! A thread waits for a future, while the engine's thread drives what the future waits for.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockkeeper_core::sync::lock;
use tokio::task::{Unconstrained, unconstrained};

use crate::runtime::is_engine_thread;
use crate::time::Clock;
use crate::{Error, ErrorKind, Result};

/// A thread sleeps on this. The token of `std::thread::park` belongs to the program.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    condvar: Condvar,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *lock(&self.woken) = true;
        self.condvar.notify_one();
    }
}

impl Parker {
    /// The future is unconstrained. In a task that has used up its budget, every resource of tokio
    /// reports `Pending` until the task yields, and a blocking call does not yield.
    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut Unconstrained<F>>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    /// Sleeps until a wake-up since the last wait, or until `limit` is over.
    fn wait(&self, limit: Duration) {
        let woken = lock(&self.woken);
        let waited = self.condvar.wait_timeout_while(woken, limit, |woken| !*woken);
        let (mut woken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *woken = false;
    }
}

/// Whether this thread may wait.
///
/// # Errors
/// `WouldDeadlock` on the thread of an engine.
pub(super) fn may_wait() -> Result<()> {
    if !is_engine_thread() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WouldDeadlock,
        "this is the thread of an engine, which must not wait",
    )
    .with_remedy("send the event to another thread, and wait there"))
}

/// The output of the future, once it has one.
///
/// # Errors
/// As [`may_wait`].
pub(super) fn wait<F: IntoFuture>(future: F) -> Result<F::Output> {
    may_wait()?;
    Ok(park(future))
}

/// Like [`wait`], on a thread that [may wait](may_wait).
pub(super) fn park<F: IntoFuture>(future: F) -> F::Output {
    let parker = Arc::new(Parker::default());
    let mut future = pin!(unconstrained(future.into_future()));
    loop {
        match parker.poll(future.as_mut()) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.wait(Duration::MAX),
        }
    }
}

/// The output of the future, or `None` if it has none within `limit`. For futures that may be
/// dropped.
///
/// # Errors
/// As [`may_wait`].
pub(super) fn wait_for<F: IntoFuture>(limit: Duration, future: F) -> Result<Option<F::Output>> {
    may_wait()?;
    let clock = Clock::boot();
    let deadline = clock.now() + limit;
    let parker = Arc::new(Parker::default());
    let mut future = pin!(unconstrained(future.into_future()));
    loop {
        if let Poll::Ready(output) = parker.poll(future.as_mut()) {
            return Ok(Some(output));
        }
        let left = deadline.saturating_since(clock.now());
        if left.is_zero() {
            return Ok(None);
        }
        parker.wait(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_woken_from_another() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = std::thread::spawn(|| wait(receiver));
        sender.send(7).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), Ok(7));
    }

    #[test]
    fn a_limit_ends_a_wait() {
        let never = std::future::pending::<()>();
        assert_eq!(wait_for(Duration::from_millis(20), never).unwrap(), None);
        assert_eq!(wait_for(Duration::ZERO, async { 7 }).unwrap(), Some(7));
    }

    #[test]
    fn the_program_keeps_what_it_was_unparked_with() {
        std::thread::current().unpark();
        assert_eq!(
            wait_for(Duration::from_millis(20), std::future::pending::<()>()).unwrap(),
            None
        );
        // Returns at once, since the wait has not taken the token.
        std::thread::park();
    }

    #[tokio::test]
    async fn a_task_that_has_used_up_its_share_waits_all_the_same() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let used_up = std::future::poll_fn(|cx| {
            loop {
                sender.send(()).unwrap();
                if receiver.poll_recv(cx).is_pending() {
                    break;
                }
            }
            let (sender, receiver) = tokio::sync::oneshot::channel();
            sender.send(7).unwrap();
            Poll::Ready(wait_for(Duration::from_secs(5), receiver).unwrap())
        });
        assert_eq!(used_up.await, Some(Ok(7)));
    }
}
