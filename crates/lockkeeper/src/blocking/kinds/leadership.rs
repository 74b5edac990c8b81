//! The leadership: the guard of an election.

use std::sync::Arc;

use crate::blocking::guard::scoped;
use crate::blocking::{Guard, Lost, ReleaseRequested};
use crate::guard::covered;
use crate::{Error, FencingToken, Result};

/// A leadership of an [`Election`](crate::blocking::Election). Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "if unused, the leadership is given up at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    pub(super) fn new(inner: crate::Leadership) -> Self {
        Self { guard: Guard::new(inner.into_guard()) }
    }

    /// The guard of its lock, with the token, the loss and [`scope`](Guard::scope).
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The fencing token of this leadership: see [`Guard::token`].
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Whether this candidate still leads, as far as this process can know, without I/O.
    ///
    /// # Errors
    /// As [`Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// A value with which another thread waits until the leadership is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// A value with which another thread waits until an operator asks the leader to resign.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.guard.release_requested()
    }

    /// Shows another value from now on, of at most 64 KiB: see [`Leadership::proclaim`](crate::Leadership::proclaim).
    ///
    /// # Errors
    /// As [`Leadership::proclaim`](crate::Leadership::proclaim).
    pub fn proclaim(&mut self, value: impl Into<Vec<u8>>) -> Result<()> {
        self.guard.proclaim(value.into())
    }

    /// Runs `f` with the leadership, and resigns: see [`Guard::with`].
    ///
    /// # Errors
    /// That of `f`, or [`Lost`](crate::ErrorKind::Lost).
    pub fn with<T, E: From<Error>>(mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let hold = Arc::clone(self.guard.hold());
        let outcome = scoped(|| hold.check(), || f(&mut self));
        covered(outcome, self.resign())
    }

    /// Gives the leadership up, and waits until the store acknowledges this, like [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn resign(self) -> Result<()> {
        self.guard.release()
    }
}
