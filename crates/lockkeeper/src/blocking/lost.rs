//! Waiting for the loss of a lock, without async.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::park;
use super::requested::ReleaseRequested;
use crate::engine::Hold;
use crate::{LostReason, Result};

/// Waits for the loss of a lock; from [`Guard::lost`](super::Guard::lost) and similar methods. This is for a thread
/// that watches the work of another thread. The wait also ends with the guard.
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

impl Lost {
    /// Waits for the loss. The result is `None` when the guard is released or dropped first.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn wait(&self) -> Result<Option<LostReason>> {
        park::wait(self.clone().lost_or_ended())
    }

    /// Waits for the loss for at most `d`. The result is `None` when the time is over, or when the guard is released or
    /// dropped first.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the engine's thread.
    pub fn wait_timeout(&self, d: Duration) -> Result<Option<LostReason>> {
        park::wait_for(d, self.clone().lost_or_ended()).map(Option::flatten)
    }

    async fn lost_or_ended(mut self) -> Option<LostReason> {
        // There is no engine in a forked child to tell it.
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

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.holds.iter().map(|hold| &hold.key.name);
        f.debug_struct("Lost").field("names", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// Changes when the guard is gone.
pub(super) type Ended = watch::Receiver<Option<LostReason>>;

/// Tells the waiting threads that the guard is gone. Its lease expires later, which is no loss.
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
        ReleaseRequested::new(holds.clone(), end.subscribe())
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
