//! What a store says without being asked. To stop believing early, and to ask again early, are always safe, so the
//! store is taken at its word.

use std::sync::{Arc, Weak};

use super::Engine;
use super::watchdog::broken_by;
use crate::LostReason;
use crate::event::Event;
use crate::store::{Asked, Broken, ClaimId, Losses};
use crate::time::Instant;

impl Engine {
    /// The store must not keep the engine.
    pub(super) fn listen(self: &Arc<Self>) {
        let with_engine = |engine: Weak<Self>, call: &dyn Fn(&Arc<Self>)| engine.upgrade().inspect(call).is_some();
        let [loses, suspects, asks] = [(); 3].map(|()| Arc::downgrade(self));
        self.store.on_loss(Losses::new(
            move |id, broken| with_engine(loses.clone(), &|engine| engine.on_lost(id, broken.clone())),
            move || with_engine(suspects.clone(), &|engine| engine.suspect_all()),
            move |id, asked| with_engine(asks.clone(), &|engine| engine.on_asked(id, asked, engine.now())),
        ));
    }

    fn on_lost(self: &Arc<Self>, id: ClaimId, broken: Option<Broken>) {
        // What was adopted twice is in two sessions.
        for hold in self.open_sessions().iter().filter_map(|session| session.claims.find_even_lost(id)) {
            // Also while another claim is to take its place: unlike a renewal that finds nothing, this is its end. And also
            // where it is lost: what a mark has left to its holder others may have now.
            self.lose(&hold, broken.clone().map_or(LostReason::Expired, broken_by));
        }
    }

    /// An administrator asks for a claim: the store reports this at once, or the answer to a renewal does, which is not
    /// older than the sending of the renewal. The holder gets one event for each request.
    pub(super) fn on_asked(&self, id: ClaimId, asked: &Asked, known: Instant) {
        for hold in self.open_sessions().iter().filter_map(|session| session.claims.find(id)) {
            if hold.ask(asked, known) {
                let (name, by, reason) = (&hold.key.name, &*asked.by, &*asked.reason);
                self.events.emit(&Event::ReleaseRequested { name, by, reason });
            }
        }
    }

    /// Everything that is held is to be renewed at once. From any thread: it wakes the watchdogs, and nothing more.
    pub(super) fn suspect_all(&self) {
        self.open_sessions().iter().for_each(|session| session.suspect());
    }
}
