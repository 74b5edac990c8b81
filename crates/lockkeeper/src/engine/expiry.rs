//! The timer that ends the belief in claims. It asks no store and waits for no reply.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::deadlines::Deadlines;
use super::hold::Stage;
use super::limits::{KEPT_FOR_BLOCKED, SCANNED_AT_ONCE};
use super::session::Session;
use super::{Engine, Hold};
use crate::LostReason;
use crate::event::Event;
use crate::time::{Alarm, Clock, Instant, WallAlarm};

/// A change of the wall clock against the time since boot, in nanoseconds, that is no sign of a
/// pause of the machine: about the drift of two clocks in a lease of half a second.
const SET: i64 = 10_000_000;

/// Runs until the engine ends.
pub(super) async fn run(engine: Weak<Engine>, clock: Clock, deadlines: Deadlines) {
    let (alarm, wall) = (Alarm::new(clock.clone()), WallAlarm::new(clock.clone()));
    let mut offset = clock.wall_offset();
    loop {
        deadlines.begin();
        let Some(found) = end_what_is_over(&engine).await else { return };
        let before = std::mem::replace(&mut offset, clock.wall_offset());
        if (offset - before).abs() >= SET {
            suspect_a_pause(&engine);
        }
        let next = deadlines.set(found);
        let end = async {
            match next {
                Some(at) => alarm.at(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end => {}
            () = deadlines.woken() => {}
            () = wall.set() => {}
        }
    }
}

/// A step of the wall clock: the machine may have been paused (by its hypervisor, for a snapshot or
/// a migration), and none of its other clocks counts such a pause. So held claims are renewed at
/// once.
fn suspect_a_pause(engine: &Weak<Engine>) {
    let Some(engine) = engine.upgrade() else { return };
    engine.events.emit(&Event::ClockAnomaly);
    engine.suspect_all();
}

/// Returns when the next claim ends, if any does; the outer `None` if the engine has ended.
async fn end_what_is_over(engine: &Weak<Engine>) -> Option<Option<Instant>> {
    let mut next = None;
    for session in engine.upgrade()?.sessions.all() {
        let mut last = None;
        loop {
            let part = session.claims.live_after(last, SCANNED_AT_ONCE);
            next =
                end_those_over(&engine.upgrade()?, &session, &part).into_iter().chain(next).min();
            if part.len() < SCANNED_AT_ONCE {
                break;
            }
            last = part.last().map(|hold| hold.key.id);
            drop(part);
            tokio::task::yield_now().await;
        }
        let engine = engine.upgrade()?;
        for hold in session.claims.take_over_delay(engine.now()) {
            hold.give_away();
            engine.withdraw_later(&hold);
        }
        next = session.claims.end_of_lock_delay().into_iter().chain(next).min();
    }
    Some(next)
}

/// Ends the claims that are dead or that their attempts have left, and returns when the first of
/// the others ends.
fn end_those_over(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    holds: &[Arc<Hold>],
) -> Option<Instant> {
    let now = engine.now();
    let (over, live): (Vec<_>, Vec<_>) =
        holds.iter().partition(|hold| hold.is_dead() || engine.was_left(hold, now));
    for hold in over {
        end(engine, session, hold);
    }
    live.into_iter().map(|hold| engine.end_of(hold)).min()
}

/// Ends a claim. A dead waiter takes a new id. A holder gets an event. A grant without a collector,
/// and a claim without an answer, are withdrawn: the store may keep either for a whole ttl.
fn end(engine: &Arc<Engine>, session: &Arc<Session>, hold: &Arc<Hold>) {
    let nobody_has_it = hold.stage() == Stage::InFlight || hold.offered().is_some();
    // A claim that is still alive here was left by its attempt.
    hold.lose(LostReason::Uncollected);
    let reason = hold.loss().cloned().unwrap_or(LostReason::Expired);
    let expired = hold.stage() == Stage::Granted && reason == LostReason::Expired && hold.renews();
    engine.lose(hold, reason);
    if nobody_has_it && hold.begin_release() {
        hold.mark_unsettled();
        engine.withdraw_later(hold);
    }
    if !expired {
        return;
    }
    let now = engine.now();
    if session.expires_as_one() && session.proven_until(now) <= now {
        // No acknowledged renewal covers any claim of the session: the others end with this claim.
        engine.end_session(session, &LostReason::Expired);
    } else {
        engine.sessions.publish_expiry();
    }
}

impl Engine {
    /// When the claim ends if no further answer comes, and its attempt is not polled.
    pub(super) fn end_of(&self, hold: &Hold) -> Instant {
        let left = hold.offered().map(|since| since + self.kept(hold));
        left.into_iter().fold(hold.deadline(), Instant::min)
    }

    /// Whether a grant was left: its attempt has not collected it for a waiter's life, and is no
    /// longer polled. An engine with a thread of its own serves callers that block, and keeps a
    /// grant for longer.
    pub(super) fn was_left(&self, hold: &Hold, now: Instant) -> bool {
        hold.offered().is_some_and(|since| now.saturating_since(since) >= self.kept(hold))
    }

    /// How long a grant is kept for its attempt.
    fn kept(&self, hold: &Hold) -> Duration {
        let least = if self.runtime.is_own() { KEPT_FOR_BLOCKED } else { Duration::ZERO };
        hold.session.wait_ttl.max(least)
    }
}
