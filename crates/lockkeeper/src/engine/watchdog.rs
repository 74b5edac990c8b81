//! The watchdog of a session: when it renews which claims. Each session has one.

use std::sync::{Arc, Weak};

use super::limits::RENEWAL_BATCH;
use super::{Engine, Hold, Session};
use crate::duration::format_duration;
use crate::random::jittered;
use crate::time::{Clock, Instant};
use crate::{Error, ErrorKind};

/// Runs until the session or the engine ends.
pub(super) async fn run(engine: Weak<Engine>, session: Arc<Session>, clock: Clock) {
    loop {
        let pause = {
            let Some(engine) = engine.upgrade() else { return };
            if session.is_over() {
                return;
            }
            if session.end_if_idle(clock.now()) {
                return engine.close_session(&session);
            }
            session.watchdog.begin();
            if session.begin_round(clock.now()) || session.danger.is_shown() {
                engine.book(&session, None);
            }
            Watchdog { engine: &engine, session: &session }.renew_what_is_due().await;
            let next = next_look(&session, clock.now());
            session.watchdog.set(next);
            next.saturating_since(clock.now())
        };
        clock.timeout(pause, session.watchdog.woken()).await;
    }
}

/// When to look again: at the next renewal, and now and then to find an idle session.
fn next_look(session: &Session, now: Instant) -> Instant {
    let idle = now + session.ttl / 3;
    next_due(session).into_iter().chain(session.danger.next_round()).fold(idle, Instant::min)
}

/// When the next claim, or the session itself, is due.
fn next_due(session: &Session) -> Option<Instant> {
    let own = (session.expires_as_one() && !session.is_fixed()).then(|| session.due());
    session.claims.next_due().into_iter().chain(own).min()
}

/// One look of the watchdog.
struct Watchdog<'a> {
    engine: &'a Arc<Engine>,
    session: &'a Arc<Session>,
}

impl Watchdog<'_> {
    /// Renews the due claims and the claims that are nearly due, the earliest deadline first.
    async fn renew_what_is_due(&self) {
        let (session, now) = (self.session, self.engine.now());
        if next_due(session).is_none_or(|due| due > now) {
            return;
        }
        // Claims that are due soon join the request, so many claims make few requests.
        let soon = now + session.wait_ttl / 12;
        let mut due = session.claims.due_by(soon);
        due.sort_by_key(|hold| hold.deadline());
        // All batches together have the time-out of one batch: many batches that hang do not delay
        // the last.
        let until = now + session.wait_ttl / 6;
        if session.expires_as_one() {
            let own = !session.is_fixed() && session.due() <= soon;
            if own || !due.is_empty() {
                self.renew_and_move_on(due, until).await;
            }
            return;
        }
        // Claims without an answer to the last renewal have a request of their own: a store with
        // several servers waits for a late server only if it has no other answer.
        let (late, prompt): (Vec<_>, Vec<_>) = due.into_iter().partition(|hold| hold.is_left_out());
        for batch in prompt.chunks(RENEWAL_BATCH).chain(late.chunks(RENEWAL_BATCH)) {
            self.renew_and_move_on(batch.to_vec(), until).await;
        }
    }

    /// Renews these claims. A renewal that hangs does not delay the next one: it goes on by itself,
    /// and its answer still counts.
    async fn renew_and_move_on(&self, holds: Vec<Arc<Hold>>, until: Instant) {
        let (engine, session) = (self.engine, self.session);
        let limit = session.wait_ttl / 6;
        // The watchdog is at work, and need not be woken.
        for hold in &holds {
            session.claims.set_due(hold, Some(engine.now() + jittered(limit)));
        }
        if session.expires_as_one() {
            session.set_due(engine.now() + jittered(limit));
        }
        let (done, finished) = tokio::sync::oneshot::channel();
        let renewing = (Arc::clone(engine), Arc::clone(session), holds.clone());
        engine.runtime.finish(async move {
            let (engine, session, holds) = renewing;
            // The renewal has booked its failure already.
            let _ = engine.renew(&session, &holds).await;
            let _ = done.send(());
        });
        if engine.clock.timeout(until.saturating_since(engine.now()), finished).await.is_none() {
            let message = format!("no answer to a renewal within {}", format_duration(limit));
            let error = Error::new(ErrorKind::Unavailable, message).with_unknown_effect();
            let endangered = if session.expires_as_one() { session.claims.live() } else { holds };
            engine.report_not_renewed(session, &endangered, &error);
        }
    }
}
