//! The runtime of the engine's tasks. Only this file spawns tasks and threads.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::time::{self, Clock};
use crate::{Error, ErrorKind, Result};

/// How long a thread of the engine's own outlives the engine, for the last posted tasks: the close
/// of the sessions.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The caller's runtime, or a thread with a runtime of its own.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    own: Option<OwnThread>,
    tracker: TaskTracker,
}

/// A thread that runs until this value is dropped.
#[derive(Debug)]
struct OwnThread {
    _stop: oneshot::Sender<()>,
}

impl Runtime {
    /// The caller's runtime, or a new thread if there is none.
    ///
    /// # Errors
    /// `Internal` if the operating system refuses a thread, or descriptors for the thread.
    pub fn here_or_own() -> Result<Self> {
        match Handle::try_current() {
            Ok(handle) => Ok(Self { handle, own: None, tracker: TaskTracker::new() }),
            Err(_) => Self::own(),
        }
    }

    /// A new thread, with or without a runtime of the caller.
    ///
    /// # Errors
    /// As [`here_or_own`](Self::here_or_own).
    pub fn own() -> Result<Self> {
        let tracker = TaskTracker::new();
        let (handle, own) = own_thread(tracker.clone())?;
        Ok(Self { handle, own: Some(own), tracker })
    }

    /// Checks whether this runtime can have the timers of the engine.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a runtime without timers.
    pub fn check(&self) -> Result<()> {
        let _entered = self.enter();
        // Tokio reports the missing timers only by a panic. In a task that is never joined, the
        // panic would be lost.
        catch_unwind(time::probe).map_err(|_| {
            Error::invalid(
                "the tokio runtime has no timers, or no I/O: the deadlines of locks need both",
            )
            .with_remedy("enable_all() at the builder of the runtime, or dedicated_thread()")
        })
    }

    /// Returns whether the engine has a thread of its own: then the polls of a caller do not drive
    /// it.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Enters the runtime: code that is polled from anywhere can then make timers and sockets.
    /// `None` at the very end of a thread.
    pub fn enter(&self) -> Option<EnterGuard<'_>> {
        (!is_thread_ending()).then(|| self.handle.enter())
    }

    /// Runs a call of the user's subscriber: here, or on the runtime at the very end of a thread. A
    /// subscriber has thread-locals of its own, and a panic in the destructor of a thread-local
    /// aborts the process.
    pub fn aside(&self, call: impl FnOnce() + Send + 'static) {
        match is_thread_ending() {
            true => self.finish(async move { call() }),
            false => call(),
        }
    }

    /// Runs a task that has to end; [`drain`](Self::drain) waits for it.
    pub fn finish<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.handle.spawn(self.tracker.track_future(task));
    }

    /// Polls `task` once in place, so that its request takes its place in the order of this task's
    /// requests, and then lets the runtime [finish](Self::finish) the task. At the very end of a
    /// thread the runtime does everything. A panic in the task ends only the task, as in the
    /// runtime: drops call this function.
    pub fn post<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut task = Box::pin(task);
        let Some(_entered) = self.enter() else { return self.finish(task) };
        let poll = AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        if matches!(catch_unwind(poll), Ok(Poll::Pending)) {
            self.finish(task);
        }
    }

    /// If the engine has a thread of its own, this [posts](Self::post) `task`: the task goes on
    /// while its caller's thread is blocked, and holds nothing in the store for which the engine's
    /// own requests may wait. Otherwise the caller drives the task.
    pub fn carry<T: Send + 'static>(&self, task: Task<Result<T>>) -> Task<Result<T>> {
        if !self.is_own() {
            return task;
        }
        let (done, result) = oneshot::channel();
        self.post(async move {
            // Without a receiver, the result is dropped: the drop of a grant withdraws it.
            let _ = done.send(task.await);
        });
        Box::pin(async move { result.await.unwrap_or_else(|_| Err(gone().with_unknown_effect())) })
    }

    /// Like [`carry`](Self::carry), for a task that only reads: the task ends with its caller, and
    /// nothing waits for its end.
    pub fn look<T: Send + 'static>(&self, task: Task<Result<T>>) -> Task<Result<T>> {
        if !self.is_own() {
            return task;
        }
        let (mut done, result) = oneshot::channel();
        self.serve(async move {
            tokio::select! {
                () = done.closed() => {}
                looked = task => drop(done.send(looked)),
            }
        });
        Box::pin(async move { result.await.unwrap_or_else(|_| Err(gone())) })
    }

    /// Lets `task` go on without the polls of its caller, after a first poll in place: so it delays
    /// no other task by the mutexes that it holds. `None` if the runtime has ended first.
    pub fn carry_on<T, F>(&self, task: F) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        self.post(async move {
            // The caller may have gone.
            let _ = done.send(task.await);
        });
        async move { result.await.ok() }
    }

    /// Runs a task that ends only with the engine.
    pub fn serve<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.handle.spawn(task);
    }

    /// Waits until all tasks of [`finish`](Self::finish) have ended, for at most `within`; returns
    /// whether they have.
    ///
    /// # Cancel safety
    /// The future only waits, and may be dropped.
    pub async fn drain(&self, clock: &Clock, within: Duration) -> bool {
        self.tracker.close();
        // The tracker stays closed, which excludes no task: another drain may be waiting.
        clock.timeout(within, self.tracker.wait()).await.is_some()
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the engine's thread has ended")
}

/// Checks whether timers can be made here.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) outside a tokio runtime.
pub fn check_here() -> Result<()> {
    Handle::try_current().map(drop).map_err(|_| {
        Error::invalid("this call is not inside a tokio runtime")
            .with_remedy("#[tokio::main], or Runtime::block_on")
    })
}

fn own_thread(tracker: TaskTracker) -> Result<(Handle, OwnThread)> {
    let failed = |e: std::io::Error| {
        Error::new(ErrorKind::Internal, format!("the engine got no thread: {e}"))
            .with_remedy("connect inside a tokio runtime, or raise the limits of the process")
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        IS_ENGINE.set(true);
        runtime.block_on(async {
            // Ends when the sender is dropped: with the engine.
            let _ = stopped.await;
            tracker.close();
            Clock::boot().timeout(LAST_WORDS, tracker.wait()).await;
        });
    };
    std::thread::Builder::new().name("lockkeeper".to_owned()).spawn(run).map_err(failed)?;
    Ok((handle, OwnThread { _stop: stop }))
}

thread_local! {
    static IS_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this is the thread of an engine. Code there must not wait for an engine.
pub fn is_engine_thread() -> bool {
    IS_ENGINE.get()
}

/// Dropped before the thread-locals that were made before it, since a thread drops them from the
/// last to the first.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {}
}

thread_local! {
    static ENDING: Ending = const { Ending };
}

/// Makes `is_thread_ending` work on this thread from now on. Called after a grant, when tokio and
/// the subscriber have made their thread-locals.
pub fn remember_thread() {
    let _ = ENDING.try_with(|_| ());
}

/// Returns whether this is the end of a thread: the thread-locals of tokio and of a subscriber may
/// be gone.
fn is_thread_ending() -> bool {
    ENDING.try_with(|_| ()).is_err()
        || Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Polls `future` inside the engine's runtime, from any caller.
///
/// # Cancel safety
/// `future` is dropped with this future.
pub async fn inside<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        let _entered = runtime.enter();
        future.as_mut().poll(cx)
    })
    .await
}

/// A boxed future of the engine.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls `task` with the runtime entered.
pub fn poll_inside<T>(runtime: &Runtime, task: &mut Task<T>, cx: &mut Context<'_>) -> Poll<T> {
    let _entered = runtime.enter();
    task.as_mut().poll(cx)
}
