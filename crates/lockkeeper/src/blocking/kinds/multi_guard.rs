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

/// The locks of a multi-lock, held together: lost as soon as one of them is lost. Dropping it releases them in the
/// background.
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

    /// The guard of each lock, in the order of the bytes of their names: for its token and its sequencer.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of the lock of this name, as it was typed; `None` for a name that is not among them.
    pub fn get(&self, name: impl AsRef<str>) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name.as_ref())
    }

    /// For how long the holder may believe in all of them; zero once one is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::ZERO)
    }

    /// Whether all are still held, as far as this process can know: see [`Guard::check`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), naming one that is lost.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// What another thread can wait with until the first of them is lost.
    pub fn lost(&self) -> Lost {
        self.end.lost(|| self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// What another thread can wait with until somebody asks for the first of them.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.end.requested(|| self.guards.iter().map(|guard| Arc::clone(guard.hold())).collect())
    }

    /// Runs `f` if all are held, and returns what `f` does if all are still held then: see [`Guard::scope`].
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when one is lost before the end of `f`.
    pub fn scope<T, E: From<Error>>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        scoped(|| self.check(), f)
    }

    /// The same for work that cannot fail: see [`Guard::while_held`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when one is lost before the end of `f`.
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

    /// Releases all of them, and waits for the store's word for it.
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
