//! Waiting for the loss of a lock, and for a request to release it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::park;
use crate::engine::Hold;
use crate::{LostReason, ReleaseRequest, Result};

/// Waits for the loss of a lock; from [`Guard::lost`](super::Guard::lost) and similar methods. This
/// is for a thread that watches the work of another thread. The wait also ends with the guard.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let guard = keeper.mutex("report")?.lock()?;
/// let (lost, stop) = (guard.lost(), AtomicBool::new(false));
/// std::thread::scope(|threads| {
///     threads.spawn(|| {
///         if let Ok(Some(reason)) = lost.wait() {
///             eprintln!("{reason}");
///             stop.store(true, Ordering::Relaxed);
///         }
///     });
///     // The work, which looks at `stop` now and then.
///     guard.release()
/// })?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[derive(Clone)]
pub struct Lost {
    holds: Vec<Arc<Hold>>,
    end: Ended,
}

/// Waits until an operator asks the holder of a lock to release it; from
/// [`Guard::release_requested`](super::Guard::release_requested) and similar methods. The wait also
/// ends with the guard. The async [`Guard::release_requested`](crate::Guard::release_requested)
/// describes what a request is and when it arrives.
#[derive(Clone)]
pub struct ReleaseRequested {
    holds: Vec<Arc<Hold>>,
    end: Ended,
}

macro_rules! waits {
    ($($Type:ident -> $Out:ident;)+) => {$(
        impl $Type {
            /// Waits until the event happens. The result is `None` when the guard is released or
            /// dropped first.
            ///
            /// # Errors
            /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
            pub fn wait(&self) -> Result<Option<$Out>> {
                park::wait(self.clone().or_ended())
            }

            /// Waits until the event happens, for at most `d`. The result is `None` when the time
            /// is over, or when the guard is released or dropped first. With a `d` of zero the call
            /// only looks, so that long work can look now and then.
            ///
            /// # Errors
            /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
            pub fn wait_timeout(&self, d: Duration) -> Result<Option<$Out>> {
                park::wait_for(d, self.clone().or_ended()).map(Option::flatten)
            }
        }

        impl fmt::Debug for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names = self.holds.iter().map(|hold| &hold.key.name);
                f.debug_struct(stringify!($Type)).field("names", &names.collect::<Vec<_>>()).finish_non_exhaustive()
            }
        }
    )+};
}

waits! {
    Lost -> LostReason;
    ReleaseRequested -> ReleaseRequest;
}

impl Lost {
    async fn or_ended(mut self) -> Option<LostReason> {
        // A forked child has no engine that reports the loss.
        if self.holds.iter().any(|hold| hold.is_forked()) {
            return Some(LostReason::Forked);
        }
        let lost = crate::Lost::of(self.holds);
        tokio::select! {
            biased;
            _ = self.end.changed() => self.end.borrow().clone(),
            reason = lost => Some(reason),
        }
    }
}

impl ReleaseRequested {
    async fn or_ended(mut self) -> Option<ReleaseRequest> {
        let requested = crate::ReleaseRequested::of(self.holds);
        tokio::select! {
            biased;
            request = requested => Some(request),
            _ = self.end.changed() => None,
        }
    }
}

/// Changes when the guard is gone.
type Ended = watch::Receiver<Option<LostReason>>;

/// Reports to the waiting threads that the guard is gone. The lease of the guard expires later,
/// which is no loss.
#[derive(Default)]
pub(super) struct End {
    /// Empty until a thread asks for it.
    ending: OnceLock<Ending>,
}

struct Ending {
    holds: Vec<Arc<Hold>>,
    end: watch::Sender<Option<LostReason>>,
}

impl End {
    pub(super) fn lost(&self, holds: impl FnOnce() -> Vec<Arc<Hold>>) -> Lost {
        let Ending { holds, end } = self.ending(holds);
        Lost { holds: holds.clone(), end: end.subscribe() }
    }

    pub(super) fn requested(&self, holds: impl FnOnce() -> Vec<Arc<Hold>>) -> ReleaseRequested {
        let Ending { holds, end } = self.ending(holds);
        ReleaseRequested { holds: holds.clone(), end: end.subscribe() }
    }

    fn ending(&self, holds: impl FnOnce() -> Vec<Arc<Hold>>) -> &Ending {
        self.ending.get_or_init(|| Ending { holds: holds(), end: watch::Sender::new(None) })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(Ending { holds, end }) = self.ending.get() {
            end.send_replace(holds.iter().find_map(|hold| hold.loss().cloned()));
        }
    }
}
