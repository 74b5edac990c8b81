//! The guard of a multi-lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::guard::scoped;
use crate::blocking::lost::End;
use crate::blocking::park::wait;
use crate::blocking::{Guard, Lost, ReleaseRequested};
use crate::guard::covered;
use crate::{Error, Result};

/// The held locks of a multi-lock. The guard reports a loss as soon as one of its locks is lost. Dropping it releases
/// the locks in the background.
#[must_use = "if unused, the locks are released at once"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    end: End,
    guards: Vec<Guard>,
}

impl MultiGuard {
    pub(super) fn new(inner: crate::MultiGuard) -> Self {
        Self { end: End::default(), guards: inner.into_guards().into_iter().map(Guard::new).collect() }
    }

    /// The guard of each lock, with its token and its sequencer, in the order of the bytes of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of the lock with this name, as it was typed; `None` for a name that the multi-lock does not have.
    pub fn get(&self, name: impl AsRef<str>) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name.as_ref())
    }

    /// Time left before the guard reports one of the locks as lost, unless a renewal succeeds first. Zero once a lock
    /// is lost.
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

    /// A value with which another thread waits until the first lock is lost.
    pub fn lost(&self) -> Lost {
        self.end.lost(|| self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// A value with which another thread waits until an operator asks for one of the locks.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.end.requested(|| self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// Runs `f` if all locks are held, and returns the result of `f` if all locks are still held then: see
    /// [`Guard::scope`].
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when a lock is lost before the end of `f`.
    pub fn scope<T, E: From<Error>>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        scoped(|| self.check(), f)
    }

    /// Like [`scope`](Self::scope), for work that cannot fail: see [`Guard::while_held`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when a lock is lost before the end of `f`.
    pub fn while_held<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.scope(|| Ok(f()))
    }

    /// Runs `f` with the guard, and releases the locks: see [`Guard::with`].
    ///
    /// # Errors
    /// That of `f`, or [`Lost`](crate::ErrorKind::Lost), which names the lock.
    pub fn with<T, E: From<Error>>(self, f: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        let outcome = self.scope(|| f(&self));
        covered(outcome, self.release())
    }

    /// Releases all locks, and waits until the store acknowledges the releases.
    ///
    /// # Errors
    /// As the async [`MultiGuard::release`](crate::MultiGuard::release).
    pub fn release(self) -> Result<()> {
        let Self { end, guards } = self;
        drop(end);
        let guards = guards.into_iter().map(Guard::into_inner).collect();
        wait(crate::MultiGuard::from_guards(guards).release())?
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish()
    }
}
