//! What a store says without being asked. To stop believing early, and to ask again early, are always safe, so the
//! store is taken at its word.

use std::sync::{Arc, Weak};

use super::Engine;
use super::watchdog::broken_by;
use crate::LostReason;
use crate::store::{Broken, ClaimId, Losses};

impl Engine {
    /// The store must not keep the engine.
    pub(super) fn listen(self: &Arc<Self>) {
        let hear = |engine: Weak<Self>, hear: &dyn Fn(&Arc<Self>)| engine.upgrade().inspect(hear).is_some();
        let (loses, doubts) = (Arc::downgrade(self), Arc::downgrade(self));
        self.store.tell_losses(Losses::new(
            move |id, broken| hear(loses.clone(), &|engine| engine.told_lost(id, broken.clone())),
            move || hear(doubts.clone(), &|engine| engine.doubt_all()),
        ));
    }

    fn told_lost(self: &Arc<Self>, id: ClaimId, broken: Option<Broken>) {
        // What was adopted twice is in two sessions.
        for hold in self.open_sessions().iter().filter_map(|session| session.find_even_lost(id)) {
            // Also while another claim is to take its place: unlike a renewal that finds nothing, this is its end. And also
            // where it is lost: what a mark has left to its holder others may have now.
            self.lose(&hold, broken.clone().map_or(LostReason::Expired, broken_by));
        }
    }

    /// Everything that is held is to be renewed at once. From any thread: it rings the watchdogs, and nothing more.
    pub(super) fn doubt_all(&self) {
        self.open_sessions().iter().for_each(|session| session.doubt());
    }
}
