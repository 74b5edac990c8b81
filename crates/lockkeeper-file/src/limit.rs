//! The limit of the time of a request. A thread of the store ends the wait of a caller: the threads
//! that do the requests may hang at the gate or at the disk, and the runtime of a caller may have
//! ended, or may be none.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lockkeeper_core::kit::Process;
use tokio::sync::oneshot;

use super::layout::times::{Micros, now};
use super::writer;
use crate::Result;

/// The longest time of a request. A program other than lockkeeper may keep the file locked for less
/// time, and gets an answer of its own.
const ANSWER_LIMIT: Micros = 8_000_000;

/// How long the thread sleeps at most while a caller waits: a sleep does not count the time of a
/// suspended machine.
const LONGEST_SLEEP: Micros = 1_000_000;

/// The way to the thread, which ends when this is dropped.
pub(super) struct Limits(Arc<CallLimits>, Process);

#[derive(Default)]
struct CallLimits {
    waits: Mutex<Waits>,
    begun: Condvar,
}

#[derive(Default)]
struct Waits {
    /// The waits of callers, in the order of their ends.
    ends: VecDeque<(Micros, oneshot::Sender<()>)>,
    /// Whether the thread sleeps until a wait begins.
    is_idle: bool,
    is_over: bool,
}

impl Limits {
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::<CallLimits>::default();
        let limits = Self(Arc::clone(&shared), Process::this());
        writer::spawn_thread("lockkeeper-time", move || shared.run())?;
        Ok(limits)
    }

    /// Awaits an answer for at most the time of a request. The result is `None` when the time is
    /// over.
    pub(super) async fn within<F: Future>(&self, answer: F) -> Option<F::Output> {
        let (mut answer, mut end) = (pin!(answer), pin!(self.0.begin()));
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => end.as_mut().poll(cx).map(|_| None),
        })
        .await
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        // A fork has no such thread, and its mutex may stay locked.
        if self.1.is_this_in_its_namespace() {
            self.0.lock().is_over = true;
            self.0.begun.notify_one();
        }
    }
}

impl CallLimits {
    fn begin(&self) -> oneshot::Receiver<()> {
        let (over, end) = oneshot::channel();
        let mut waits = self.lock();
        waits.remove_answered();
        waits.ends.push_back((now().saturating_add(ANSWER_LIMIT), over));
        if waits.is_idle {
            self.begun.notify_one();
        }
        end
    }

    /// Works until the [`Limits`] are dropped. While callers come and go, the thread wakes only
    /// once a second.
    fn run(&self) {
        let mut waits = self.lock();
        while !waits.is_over {
            let (over, next) = waits.take_over(now());
            if !over.is_empty() {
                drop(waits);
                // The receiver is gone if the future was dropped.
                over.into_iter().for_each(|over| _ = over.send(()));
                waits = self.lock();
                continue;
            }
            waits.is_idle = next.is_none();
            waits = match next {
                None => self.begun.wait(waits).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let left = Duration::from_micros(left.clamp(1, LONGEST_SLEEP).unsigned_abs());
                    self.begun.wait_timeout(waits, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    fn remove_answered(&mut self) {
        while self.ends.front().is_some_and(|(_, over)| over.is_closed()) {
            self.ends.pop_front();
        }
    }

    /// The waits that are over, and the time that the next one has left.
    fn take_over(&mut self, now: Micros) -> (Vec<oneshot::Sender<()>>, Option<Micros>) {
        let mut over = Vec::new();
        self.remove_answered();
        while self.ends.front().is_some_and(|(end, _)| *end <= now) {
            over.extend(self.ends.pop_front().map(|(_, over)| over));
        }
        (over, self.ends.front().map(|(end, _)| end.saturating_sub(now)))
    }
}
