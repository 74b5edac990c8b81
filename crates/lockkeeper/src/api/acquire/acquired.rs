//! The results of an attempt.

use super::super::guard::Guard;
use super::super::handle::Handle;
use crate::{Error, Leadership, MultiGuard, Result};

/// The result of an attempt: a guard, the guard of a multi-lock, a leadership, an `Option` of one
/// of these, or a handle.
pub trait Acquired: sealed::Sealed + Sized {}

pub(crate) mod sealed {
    use super::{Error, Guard, Result};

    pub trait Sealed: Sized {
        /// The result for a busy lock: an error, or an answer.
        fn busy(error: Error) -> Result<Self>;
        /// The result for the guard, and for the guards of further locks.
        fn held(guard: Guard, also: Vec<Guard>) -> Self;
    }

    /// A result that is not an `Option` itself.
    pub trait Certain: Sealed {}
}

impl sealed::Sealed for Guard {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        guard
    }
}

impl sealed::Sealed for MultiGuard {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, also: Vec<Guard>) -> Self {
        Self::new(guard, also)
    }
}

impl<G: sealed::Certain> sealed::Sealed for Option<G> {
    fn busy(_: Error) -> Result<Self> {
        Ok(None)
    }

    fn held(guard: Guard, also: Vec<Guard>) -> Self {
        Some(G::held(guard, also))
    }
}

impl sealed::Sealed for Handle {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        guard.into_handle()
    }
}

impl sealed::Sealed for Leadership {
    fn busy(error: Error) -> Result<Self> {
        Err(error)
    }

    fn held(guard: Guard, _: Vec<Guard>) -> Self {
        Self::new(guard)
    }
}

impl Acquired for Guard {}
impl Acquired for Leadership {}
impl Acquired for Handle {}
impl Acquired for MultiGuard {}
impl<G: sealed::Certain> Acquired for Option<G> {}

impl sealed::Certain for Guard {}
impl sealed::Certain for Leadership {}
impl sealed::Certain for MultiGuard {}
