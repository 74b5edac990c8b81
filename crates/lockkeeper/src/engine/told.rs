//! What a store says without being asked: that a claim is lost. To stop believing early is always safe, so it is
//! taken at its word, as the answer to a renewal is.

use std::sync::Arc;

use super::Engine;
use super::watchdog::reason;
use crate::store::{Broken, ClaimId, Losses};

impl Engine {
    /// The store must not keep the engine.
    pub(super) fn listen(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        self.store.tell_losses(Losses::new(move |id, broken| {
            let engine = engine.upgrade();
            if let Some(engine) = &engine {
                engine.told_lost(id, broken);
            }
            engine.is_some()
        }));
    }

    fn told_lost(self: &Arc<Self>, id: ClaimId, broken: Option<Broken>) {
        if let Some(hold) = self.open_sessions().iter().find_map(|session| session.find(id)) {
            // Also while another claim is to take its place: unlike a renewal that finds nothing, this is its end.
            self.lose(&hold, reason(broken));
        }
    }
}
