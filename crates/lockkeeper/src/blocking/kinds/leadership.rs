//! Leading: the guard of an election.

use std::sync::Arc;

use crate::blocking::guard::scoped;
use crate::blocking::{Guard, ReleaseRequested};
use crate::guard::covered;
use crate::{Error, Result};

/// A leadership that was won. Dropping it resigns in the background.
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

    /// The lock behind it: for its token, for hearing of its loss, and for running something under it.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// What another thread can wait with until somebody asks the leader to resign.
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

    /// Gives the leadership up, and waits for the store's word for it: as [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn resign(self) -> Result<()> {
        self.guard.release()
    }
}
