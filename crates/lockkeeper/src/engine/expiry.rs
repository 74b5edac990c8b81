//! The timer that ends belief. It asks no store and waits for no reply.

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

/// By so many nanoseconds the wall clock may be set against the time since boot without a question
/// whether the machine was paused: about what two clocks may drift apart in a lease of half a
/// second.
const SET: i64 = 10_000_000;

/// Ends with the engine.
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

/// The wall clock was set: the machine may have been paused (by its hypervisor, for a snapshot, for
/// a migration), which no clock of its own counts. What is held is renewed at once.
fn suspect_a_pause(engine: &Weak<Engine>) {
    let Some(engine) = engine.upgrade() else { return };
    engine.events.emit(&Event::ClockAnomaly);
    engine.suspect_all();
}

/// Returns when the next thing ends, if any does; nothing where the engine has ended.
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

/// Ends those that are dead, or were left by their attempts, and returns when the first of the
/// others will be.
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

/// A waiter that died takes a new id. A holder gets an event. What nobody has collected, and what
/// may have been granted by an answer that nobody reads, is given back: it may have its whole ttl.
fn end(engine: &Arc<Engine>, session: &Arc<Session>, hold: &Arc<Hold>) {
    let nobody_has_it = hold.stage() == Stage::InFlight || hold.offered().is_some();
    // Who is here alive was left.
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
        // No acknowledged renewal covers any claim of it: the others follow with this one.
        engine.end_session(session, &LostReason::Expired);
    } else {
        engine.sessions.publish_expiry();
    }
}

impl Engine {
    /// When it ends if nothing more is heard of it, nor of its attempt.
    pub(super) fn end_of(&self, hold: &Hold) -> Instant {
        let left = hold.offered().map(|since| since + self.kept(hold));
        left.into_iter().fold(hold.deadline(), Instant::min)
    }

    /// Whether nobody has collected this grant for a waiter's life: the attempt that it belongs to
    /// is polled no more. An engine with a thread of its own serves callers that block, and keeps a
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
