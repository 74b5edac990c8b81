//! Fallback requests with fewer keys. While a slot migrates from one node to another, a key is at the old one until it
//! has been moved, and one that is missing there is at the new one, or may be made there (`ASK`). So a request for one
//! key is served all the time. One that names several of which some are missing is refused (`TRYAGAIN`).

use super::super::wire::{Request, WireError};
use super::RetryAction;

/// The code of a refusal while a slot migrates.
pub(crate) const OPEN: &str = "TRYAGAIN";

/// What to do instead of repeating a request until the slot has arrived.
pub(crate) trait Fallback: Send {
    /// The request with fewer keys for this try, from 0 on, if there is one. The answer `Nil` says that the request is
    /// not applicable, and has done nothing.
    fn request(&self, nth: usize) -> Option<Request>;

    /// Whether the whole request is repeated if no fallback is applicable; otherwise the refusal is returned.
    fn repeats(&self) -> bool {
        true
    }
}

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoFallback;

impl Fallback for NoFallback {
    fn request(&self, _: usize) -> Option<Request> {
        None
    }
}

/// There is no fallback, and the caller handles the refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportMigration;

impl Fallback for ReportMigration {
    fn request(&self, _: usize) -> Option<Request> {
        None
    }

    fn repeats(&self) -> bool {
        false
    }
}

impl<F: Fn(usize) -> Option<Request> + Send> Fallback for F {
    fn request(&self, nth: usize) -> Option<Request> {
        self(nth)
    }
}

/// A request, and the fallback that is to be sent next.
#[derive(Debug)]
pub(super) struct Migrating<F> {
    whole: Request,
    reduced: Option<Request>,
    /// How many have been tried since the whole was.
    tried: usize,
    fallback: F,
}

impl<F: Fallback> Migrating<F> {
    pub(super) fn new(whole: Request, fallback: F) -> Self {
        Self { whole, reduced: None, tried: 0, fallback }
    }

    pub(super) fn request(&self) -> Request {
        self.reduced.as_ref().unwrap_or(&self.whole).clone()
    }

    /// Whether it is not the whole.
    pub(super) fn is_reduced(&self) -> bool {
        self.reduced.is_some()
    }

    /// The slot migrates: the next fallback, and after the last one the whole request again. A fallback is sent to the
    /// node that has the slot, also if the other node was asked before: the key may still be there.
    pub(super) fn next(&mut self) -> RetryAction {
        self.reduced = self.fallback.request(self.tried);
        self.tried = if self.reduced.is_some() { self.tried + 1 } else { 0 };
        match self.reduced {
            Some(_) => RetryAction::Again,
            None if self.fallback.repeats() => RetryAction::Later,
            None => RetryAction::None,
        }
    }
}

/// The refusal for a fallback that is not applicable.
pub(super) fn open() -> WireError {
    WireError::server(OPEN, "Multiple keys request during rehashing of slot")
}
