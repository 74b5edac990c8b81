//! What a store says without being asked: that a claim is lost.

use std::fmt;
use std::sync::Arc;

use super::{Broken, ClaimId};

/// Who is to hear, between two renewals, that a claim is lost. Clones speak to the same one.
#[derive(Clone)]
pub struct Losses(Arc<Tell>);

type Tell = dyn Fn(ClaimId, Option<Broken>) -> bool + Send + Sync;

impl Losses {
    /// `hear` returns whether it still listens.
    pub fn new(hear: impl Fn(ClaimId, Option<Broken>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Says that this claim is gone for good, or marked as broken: whoever believed in it stops before this returns.
    /// Whoever does not know the id is not concerned.
    ///
    /// To be called *before* anybody else may be granted what the claim held, and outside of the locks that the
    /// store's own methods take: the holder's clean-up may call them at once.
    ///
    /// `false` when nobody listens any more, so that the store can forget it.
    pub fn tell(&self, id: ClaimId, broken: Option<Broken>) -> bool {
        (self.0)(id, broken)
    }
}

/// Equal are those that speak to the same one.
impl PartialEq for Losses {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Losses")
    }
}
