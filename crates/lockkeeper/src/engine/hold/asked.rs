//! Who asks for a claim.

use super::super::lock::lock;
use super::Hold;
use crate::store::Asked;
use crate::time::Instant;

impl Hold {
    /// Somebody asks for it, as the store knew at `known`. Whether that is news: an answer to a
    /// question that was sent before the last request was received of may know only the request
    /// before it.
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

    /// It takes the place of another one of the same holder, who is asked for it as before.
    pub(in crate::engine) fn asked_as(&self, other: &Self) {
        let asked = lock(&other.asked).clone();
        if let Some((asked, received)) = asked {
            self.ask(&asked, received);
        }
    }

    /// Completes when somebody asks for it.
    pub(crate) async fn asked(&self) -> Asked {
        self.until(|| lock(&self.asked).as_ref().map(|(asked, _)| asked.clone())).await
    }
}
