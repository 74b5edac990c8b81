//! The timer that ends belief. It asks no store and waits for no reply.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::hold::Stage;
use super::session::Session;
use super::{Engine, Hold};
use crate::LostReason;
use crate::time::{Alarm, Clock, Instant};

/// Rings the timer when something ends earlier than what it is set to.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set_to: AtomicU64,
    bell: Notify,
}

impl Bell {
    /// Something ends at `at`.
    pub(super) fn expect(&self, at: Instant) {
        if at.as_nanos() < self.0.set_to.load(Ordering::Acquire) {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        self.0.bell.notify_one();
    }
}

/// Ends with the engine.
pub(super) async fn run(engine: Weak<Engine>, clock: Clock, bell: Bell) {
    let alarm = Alarm::new(clock.clone());
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else { return };
            // Whoever has something earlier than what is being computed here must ring.
            bell.0.set_to.store(u64::MAX, Ordering::Release);
            engine.end_what_is_over();
            let next = engine.open_sessions().iter().filter_map(|s| s.next_end()).min();
            bell.0.set_to.store(next.map_or(u64::MAX, Instant::as_nanos), Ordering::Release);
            next
        };
        match next {
            None => bell.0.bell.notified().await,
            Some(at) => tokio::select! {
                () = alarm.at(at) => {}
                () = bell.0.bell.notified() => {}
            },
        }
    }
}

impl Engine {
    fn end_what_is_over(self: &Arc<Self>) {
        let now = self.now();
        for session in self.open_sessions() {
            for hold in session.holds() {
                if hold.is_dead() {
                    self.end(&session, &hold);
                }
            }
            for hold in session.lingered(now) {
                self.withdraw_later(&hold);
            }
        }
    }

    /// A waiter that died is the waiter's own business: it takes a new id. A holder is told.
    fn end(self: &Arc<Self>, session: &Arc<Session>, hold: &Arc<Hold>) {
        let reason = hold.loss().cloned().unwrap_or(LostReason::Expired);
        let expired = hold.stage() == Stage::Granted && reason == LostReason::Expired && hold.renews();
        self.lose(hold, reason);
        if !expired {
            return;
        }
        if session.owns_life() {
            // No acknowledged renewal covers any claim of it: the others follow with this one.
            self.expire_session(session);
        } else {
            self.publish_expiry();
        }
    }
}
