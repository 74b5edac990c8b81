//! What a store reports to a keeper between two renewals: that a claim is lost or asked for, or
//! that claims may be forgotten.

use std::fmt;
use std::sync::Arc;

use super::{Asked, Broken, ClaimId};

/// A keeper that listens to its store between two renewals. Clones speak to the same keeper.
#[derive(Clone)]
pub struct Losses(Arc<Words>);

struct Words {
    lost: Box<dyn Fn(ClaimId, Option<Broken>) -> bool + Send + Sync>,
    reconnected: Box<dyn Fn() -> bool + Send + Sync>,
    requested: Box<Request>,
}

type Request = dyn Fn(ClaimId, &Asked) -> bool + Send + Sync;

impl Losses {
    /// A listener made of three callbacks, one for each method: `lost` for [`lost`](Self::lost),
    /// `reconnected` and `requested`. Each callback returns whether the keeper still listens.
    pub fn new(
        lost: impl Fn(ClaimId, Option<Broken>) -> bool + Send + Sync + 'static,
        reconnected: impl Fn() -> bool + Send + Sync + 'static,
        requested: impl Fn(ClaimId, &Asked) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (lost, reconnected, requested) =
            (Box::new(lost), Box::new(reconnected), Box::new(requested));
        Self(Arc::new(Words { lost, reconnected, requested }))
    }

    /// Reports to the keeper that an administrator asks the holder of this claim to release the
    /// lock. A keeper ignores an id that it does not know, and a request that it has already
    /// received. A store calls this method outside of the locks that the store's own methods take.
    ///
    /// Returns `false` when the keeper no longer listens: the store can forget this listener.
    pub fn requested(&self, id: ClaimId, asked: &Asked) -> bool {
        (self.0.requested)(id, asked)
    }

    /// Reports to the keeper that this claim is marked as broken or, with `None`, that it has
    /// expired by the store's clock. When this method returns, the guard no longer reports the lock
    /// as held. A keeper ignores an id that it does not know.
    ///
    /// If a marked claim is removed before its lease expires, the store calls this method once
    /// more: the holder no longer has the time that the mark left to it.
    ///
    /// A store calls this method *before* it may grant another claim what this claim held. It calls
    /// it outside of the locks that the store's own methods take: the clean-up of the holder may
    /// call these methods at once.
    ///
    /// Returns `false` when the keeper no longer listens: the store can forget this listener.
    pub fn lost(&self, id: ClaimId, broken: Option<Broken>) -> bool {
        (self.0.lost)(id, broken)
    }

    /// Reports to the keeper that the store has connected again, or that the server may have
    /// forgotten claims: after a restart, a failover, or a change to another member. The keeper
    /// renews all locks that it holds within about 100 ms (a hundred thousand locks within about a
    /// second). Its sessions are in `SessionState::Jeopardy` until the store has acknowledged each
    /// of these locks. Waiting claims are not renewed: for them [`Store::wait`](super::Store::wait)
    /// answers [`Changed`](super::Wake::Changed).
    ///
    /// A store MAY call this method from any thread, while it holds any lock of its own, and as
    /// often as it likes: the method does no I/O and emits no event, and many calls within 250 ms
    /// count as one.
    ///
    /// Returns `false` when the keeper no longer listens: the store can forget this listener.
    pub fn reconnected(&self) -> bool {
        (self.0.reconnected)()
    }

    /// Returns whether the keeper still listens. For this it reports the loss of a claim that does
    /// not exist.
    pub fn is_listening(&self) -> bool {
        self.lost(ClaimId::random(), None)
    }
}

/// Two values are equal if they report to the same keeper.
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
