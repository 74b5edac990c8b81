//! What a store says without being asked: that a claim is lost, or asked for, and that it may have forgotten some.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Asked, Broken, ClaimId};

/// A keeper that listens, between two renewals, to what its store says. Clones speak to the same keeper.
#[derive(Clone)]
pub struct Losses(Arc<Words>);

struct Words {
    lost: Box<dyn Fn(ClaimId, Option<Broken>) -> bool + Send + Sync>,
    reconnected: Box<dyn Fn() -> bool + Send + Sync>,
    requested: Box<Request>,
}

type Request = dyn Fn(ClaimId, &Asked) -> bool + Send + Sync;

impl Losses {
    /// `lost`, `reconnected` and `requested` hear the three words. Each returns whether the keeper still listens.
    pub fn new(
        lost: impl Fn(ClaimId, Option<Broken>) -> bool + Send + Sync + 'static,
        reconnected: impl Fn() -> bool + Send + Sync + 'static,
        requested: impl Fn(ClaimId, &Asked) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (lost, reconnected, requested) = (Box::new(lost), Box::new(reconnected), Box::new(requested));
        Self(Arc::new(Words { lost, reconnected, requested }))
    }

    /// The store says that somebody asks the holder of this claim to let go. A keeper that does not know the id ignores
    /// it, and so it does with a request that it has heard. It is called outside of the locks that the store's own
    /// methods take.
    ///
    /// `false` when nobody listens any more: the store can forget this listener.
    pub fn requested(&self, id: ClaimId, asked: &Asked) -> bool {
        (self.0.requested)(id, asked)
    }

    /// The store says that this claim is marked as broken or, with `None`, that its life is over by the store's clock.
    /// The holder has stopped believing when this returns. A keeper that does not know the id ignores it.
    /// A claim that was marked, and is removed before its lease is over, is told once more: a mark leaves the holder time
    /// that it has no more then.
    ///
    /// A store calls it *before* another claim may be granted what this claim held, and outside of the locks that the
    /// store's own methods take: the holder's clean-up may call these methods at once.
    ///
    /// `false` when nobody listens any more: the store can forget this listener.
    pub fn tell(&self, id: ClaimId, broken: Option<Broken>) -> bool {
        (self.0.lost)(id, broken)
    }

    /// The store says that its connection was made again, or that the server may have forgotten claims: a restart, a
    /// failover, another member. The keeper renews within about 100 ms everything that it holds (a hundred thousand
    /// locks within about a second), and its sessions are in [`Jeopardy`](crate::SessionState::Jeopardy) until each of
    /// these locks is acknowledged. Claims that wait are not renewed by it: [`Store::wait`](super::Store::wait) answers
    /// [`Changed`](super::Wake::Changed) for them.
    ///
    /// A store MAY call it from any thread, with any lock of its own held, and as often as it likes: it does no I/O,
    /// emits no event, and many calls within 250 ms are one.
    ///
    /// `false` when nobody listens any more: the store can forget this listener.
    pub fn reconnected(&self) -> bool {
        (self.0.reconnected)()
    }

    /// Whether the keeper still listens. It is told of a claim that nobody has.
    pub fn is_heard(&self) -> bool {
        self.tell(ClaimId::random(), None)
    }
}

/// Equal are those that speak to the same keeper.
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

/// The keepers that listen to a store.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<Vec<Losses>>);

impl Listeners {
    /// One more keeper listens. Those that have gone are forgotten: a store may outlive any number of them.
    pub(crate) fn add(&self, to: Losses) {
        self.tell(Losses::is_heard);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(to);
    }

    /// Tells all of them, and forgets those that do not listen any more.
    pub(crate) fn tell(&self, say: impl Fn(&Losses) -> bool) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let deaf: Vec<_> = all.into_iter().filter(|losses| !say(losses)).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|losses| !deaf.contains(losses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_that_have_gone_are_forgotten_when_another_comes() {
        let listeners = Listeners::default();
        let stays = Losses::new(|_, _| true, || true, |_, _| true);
        listeners.add(stays.clone());
        for _ in 0..100 {
            listeners.add(Losses::new(|_, _| false, || false, |_, _| false));
        }
        let left = listeners.0.lock().unwrap();
        assert!(left.len() == 2 && left.contains(&stays), "{} are kept", left.len());
    }
}
