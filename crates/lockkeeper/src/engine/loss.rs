//! Losses, and the reports of a store. To stop believing early and to ask again early are always
//! safe, so the engine believes each report.

use std::sync::{Arc, Weak};

use super::hold::Stage;
use super::{Engine, Hold, Session};
use crate::LostReason;
use crate::event::Event;
use crate::store::{Asked, Broken, ClaimId, Losses};
use crate::time::Instant;

impl Engine {
    /// Listens to the reports of the store. The store must not keep the engine alive.
    pub(super) fn listen(self: &Arc<Self>) {
        let with_engine = |engine: Weak<Self>, call: &dyn Fn(&Arc<Self>)| {
            engine.upgrade().inspect(call).is_some()
        };
        let [loses, asks] = [(); 2].map(|()| Arc::downgrade(self));
        // The listener has no engine: a store may call it with a mutex held, and the end of an
        // engine asks the store.
        let suspects = Arc::downgrade(&self.sessions);
        self.store.on_loss(Losses::new(
            move |id, broken| {
                with_engine(loses.clone(), &|engine| on_lost(engine, id, broken.clone()))
            },
            move || suspects.upgrade().inspect(|sessions| sessions.suspect_all()).is_some(),
            move |id, asked| {
                with_engine(asks.clone(), &|engine| engine.on_asked(id, asked, engine.now()))
            },
        ));
    }

    /// An administrator asks for a claim. The store reports this at once, or the answer to a
    /// renewal does, which is not older than the sending of the renewal. The holder gets one event
    /// for each request.
    pub(super) fn on_asked(&self, id: ClaimId, asked: &Asked, known: Instant) {
        for hold in self.sessions.all().iter().filter_map(|session| session.claims.find(id)) {
            if hold.ask(asked, known) {
                let (name, by, reason) = (&hold.key.name, &*asked.by, &*asked.reason);
                self.events.emit(&Event::ReleaseRequested { name, by, reason });
            }
        }
    }

    /// Renews every held claim at once. Callable from any thread: it only wakes the watchdogs.
    pub(super) fn suspect_all(&self) {
        self.sessions.suspect_all();
    }

    /// The store has forgotten a session: all its locks are lost at once.
    pub(super) fn expire_session(self: &Arc<Self>, session: &Arc<Session>) {
        self.end_session(session, &LostReason::SessionExpired);
    }

    /// Nothing proves that a session lives: all its locks are lost at once.
    pub(super) fn end_session(self: &Arc<Self>, session: &Arc<Session>, reason: &LostReason) {
        if !session.end() {
            return;
        }
        self.sessions.forget(session);
        // The state is published before the losses are reported: reporting takes time, and a
        // session that is opened meanwhile is the newer state.
        if !session.is_adopted() {
            self.sessions.publish_expiry();
        }
        for hold in session.claims.live() {
            self.lose(&hold, reason.clone());
        }
        session.claims.clear();
    }

    /// Ends the belief in a claim. The claim of a holder keeps others out until its lease and its
    /// delay are over.
    pub(super) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        hold.lose(reason);
        let held = hold.loss().filter(|_| hold.stage() == Stage::Granted);
        let delay_ends =
            held.is_some_and(|reason| keeps_lock_delay(hold, reason)).then(|| end_of_delay(hold));
        if !hold.session.claims.take(hold, self.now(), delay_ends) {
            return;
        }
        if let Some(until) = delay_ends {
            self.deadlines.expect(until);
        }
        if let Some(reason) = held {
            self.report_loss(hold, reason);
        }
    }

    pub(super) fn report_loss(&self, hold: &Hold, reason: &LostReason) {
        hold.count_no_more();
        if let Ok(token) = self.token(hold.token()) {
            self.events.emit(&Event::Lost { name: &hold.key.name, token, reason });
        }
    }

    /// The holder is gone, and its last actions are unknown: the lease and the delay run out.
    pub(crate) fn abandon(self: &Arc<Self>, hold: &Arc<Hold>) {
        let until = end_of_delay(hold);
        hold.session.claims.take(hold, self.now(), Some(until));
        self.deadlines.expect(until);
    }

    /// Keeps a claim that has no believer, but may have to keep others out: it is withdrawn at
    /// `until`, and not before.
    pub(super) fn keep_in_lock_delay(&self, hold: &Arc<Hold>, until: Instant) {
        if !hold.session.claims.take(hold, self.now(), Some(until)) {
            hold.session.claims.keep_in_lock_delay(hold, until);
        }
        self.deadlines.expect(until);
    }
}

/// Whether the store may still have a lost claim, and keeps it for its delay. A session with such a
/// claim is not closed, since that would free the lock.
fn keeps_lock_delay(hold: &Hold, reason: &LostReason) -> bool {
    let absent =
        matches!(reason, LostReason::Expired | LostReason::Forgotten | LostReason::Removed { .. });
    let gone = absent && !hold.session.expires_as_one();
    let delayed = !hold.session.spec.lock_delay.is_zero();
    (delayed || !gone) && !hold.session.is_over() && !hold.session.is_adopted()
}

fn end_of_delay(hold: &Hold) -> Instant {
    let delay = hold.session.spec.lock_delay;
    hold.lease_deadline() + delay + delay / 100
}

/// The store has removed a claim, or has seen its lease end.
fn on_lost(engine: &Arc<Engine>, id: ClaimId, broken: Option<Broken>) {
    // A claim that was adopted twice is in two sessions.
    for hold in engine.sessions.all().iter().filter_map(|session| session.claims.find_even_lost(id))
    {
        // This report also ends a claim that another claim is about to replace, unlike a renewal
        // that does not find the claim. It also counts for a lost claim: others may now have a
        // broken lock that was left to its holder.
        engine.lose(&hold, broken.clone().map_or(LostReason::Expired, broken_by));
    }
}

/// The reason of the loss of a broken claim.
pub(super) fn broken_by(Broken { by, reason, removed }: Broken) -> LostReason {
    let (by, reason) = (by.to_string(), reason.to_string());
    if removed { LostReason::Removed { by, reason } } else { LostReason::Broken { by, reason } }
}
