//! The requests of other clients for a claim.

use super::super::lock::lock;
use super::Hold;
use crate::store::Asked;
use crate::time::Instant;

impl Hold {
    /// Notes a request for the claim, as the store knew it at `known`. Returns whether the request
    /// is new. An answer to a question that was sent before the last request arrived may know only
    /// an earlier request.
    pub(in crate::engine) fn ask(&self, asked: &Asked, known: Instant) -> bool {
        let mut last = lock(&self.asked);
        let is_news =
            last.as_ref().is_none_or(|(before, received)| before != asked && known >= *received);
        if is_news {
            *last = Some((asked.clone(), self.clock.now()));
        }
        drop(last);
        if is_news {
            self.changed.notify_waiters();
        }
        is_news
    }

    /// Takes over the request for another claim of the same holder, which this claim replaces.
    pub(in crate::engine) fn asked_as(&self, other: &Self) {
        let asked = lock(&other.asked).clone();
        if let Some((asked, received)) = asked {
            self.ask(&asked, received);
        }
    }

    /// Completes when another client asks for the claim.
    pub(crate) async fn asked(&self) -> Asked {
        self.until(|| lock(&self.asked).as_ref().map(|(asked, _)| asked.clone())).await
    }
}
