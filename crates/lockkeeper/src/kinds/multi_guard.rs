//! The guard of a multi-lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::finish;
use crate::guard::scoped;
use crate::{Error, ErrorKind, Guard, Lost, ReleaseRequested, Result};

/// The held locks of a multi-lock. The guard reports a loss as soon as one of its locks is lost.
/// Dropping it releases the locks in the background.
#[must_use = "if unused, the locks are released at once"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    /// The guards, at least one.
    guards: Vec<Guard>,
}

impl MultiGuard {
    pub(crate) fn new(first: Guard, also: Vec<Guard>) -> Self {
        let mut guards = Vec::with_capacity(also.len() + 1);
        guards.push(first);
        guards.extend(also);
        Self { guards }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn from_guards(guards: Vec<Guard>) -> Self {
        Self { guards }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// The guard of each lock, with its token and its sequencer, in the order of the bytes of their
    /// names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of the lock with this name, as it was typed; `None` for a name that the multi-lock
    /// does not have.
    pub fn get(&self, name: impl AsRef<str>) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name.as_ref())
    }

    /// Time left before the guard reports one of the locks as lost, unless a renewal succeeds
    /// first. Zero once a lock is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::ZERO)
    }

    /// Whether all locks are still held, as far as this process can know: see [`Guard::check`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the name of a lost lock.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// A future that completes with the reason when the first lock is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        Lost::of(self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// A future that completes when an operator asks for one of the locks: see
    /// [`Guard::release_requested`].
    pub fn release_requested(&self) -> ReleaseRequested {
        ReleaseRequested::of(self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// Runs `f` while all locks are held, and drops `f` when one is lost: see [`Guard::scope`].
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when a lock is lost before
    /// `f` completes, or while it does.
    ///
    /// # Cancel safety
    /// Dropping the future drops `f`; the locks stay held.
    pub async fn scope<T, E: From<Error>>(
        &self,
        f: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        scoped(|| self.check(), self.lost(), f).await
    }

    /// Like [`scope`](Self::scope), for work that cannot fail: see [`Guard::while_held`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when one is lost before `f` completes, or while it does.
    ///
    /// # Cancel safety
    /// Dropping the future drops `f`; the locks stay held.
    pub async fn while_held<F: Future>(&self, f: F) -> Result<F::Output> {
        self.scope(async { Ok(f.await) }).await
    }

    /// Releases all locks, and waits until the store acknowledges the releases.
    ///
    /// # Errors
    /// As [`Guard::release`]. The guard releases the other locks all the same.
    /// [`Lost`](crate::ErrorKind::Lost) names the first lock that was no longer held, and takes
    /// precedence over an error of another kind.
    ///
    /// # Cancel safety
    /// Once polled, the releases go on in the background when this is dropped.
    pub async fn release(self) -> Result<()> {
        let released = finish::all(self.guards.into_iter().map(Guard::release)).await;
        let failed = released.into_iter().filter_map(Result::err);
        failed.min_by_key(|error| error.kind() != ErrorKind::Lost).map_or(Ok(()), Err)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish()
    }
}
