//! Forms of a request that name fewer keys. While a slot is on its way from one node to another, a key is at the old one
//! until it has been moved, and one that is missing there is at the new one, or may be made there (`ASK`). So a request
//! for one key is served all the time. One that names several of which some are missing is refused (`TRYAGAIN`).

use super::super::wire::{Request, WireError};
use super::Detour;

/// The code of a refusal for as long as a slot is on its way.
pub(in crate::backend::redis) const OPEN: &str = "TRYAGAIN";

/// What to do instead of repeating a request until the slot has arrived.
pub(in crate::backend::redis) trait Fewer: Send {
    /// The form with fewer keys to be tried in this place, from 0 on, if there is one. The answer `Nil` says that it
    /// does not do, and has done nothing.
    fn form(&self, nth: usize) -> Option<Request>;

    /// Whether the request itself is repeated when no form does; else that is told.
    fn repeats(&self) -> bool {
        true
    }
}

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::redis) struct Repeats;

impl Fewer for Repeats {
    fn form(&self, _: usize) -> Option<Request> {
        None
    }
}

/// There is none, and whoever asks has something else to do.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::redis) struct Tells;

impl Fewer for Tells {
    fn form(&self, _: usize) -> Option<Request> {
        None
    }

    fn repeats(&self) -> bool {
        false
    }
}

impl<F: Fn(usize) -> Option<Request> + Send> Fewer for F {
    fn form(&self, nth: usize) -> Option<Request> {
        self(nth)
    }
}

/// A request in the form that is to be sent next.
#[derive(Debug)]
pub(super) struct Form<F> {
    whole: Request,
    less: Option<Request>,
    /// How many have been tried since the whole was.
    tried: usize,
    fewer: F,
}

impl<F: Fewer> Form<F> {
    pub(super) fn new(whole: Request, fewer: F) -> Self {
        Self { whole, less: None, tried: 0, fewer }
    }

    pub(super) fn request(&self) -> Request {
        self.less.as_ref().unwrap_or(&self.whole).clone()
    }

    /// Whether it is not the whole.
    pub(super) fn is_less(&self) -> bool {
        self.less.is_some()
    }

    /// The slot is on its way: another form, and after the last the whole again. A form is sent to the node that has the
    /// slot, also if the one before was asked of the other: the key may still be there.
    pub(super) fn next(&mut self) -> Detour {
        self.less = self.fewer.form(self.tried);
        self.tried = if self.less.is_some() { self.tried + 1 } else { 0 };
        match self.less {
            Some(_) => Detour::Again,
            None if self.fewer.repeats() => Detour::Later,
            None => Detour::None,
        }
    }
}

/// What is said of a form that does not do.
pub(super) fn open() -> WireError {
    WireError::server(OPEN, "Multiple keys request during rehashing of slot")
}
