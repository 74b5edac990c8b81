//! The timer that ends belief. It asks no store and waits for no reply.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::hold::Stage;
use super::session::Session;
use super::{Engine, Hold};
use crate::LostReason;
use crate::event::Event;
use crate::time::{Alarm, Clock, Instant, WallAlarm};

/// By so many nanoseconds the wall clock may be set against the time since boot without a question whether the machine
/// was paused: about what two clocks may drift apart in a lease of half a second.
const SET: i64 = 10_000_000;
/// So many claims are looked at before other tasks have their turn.
const AT_ONCE: usize = 1000;

/// The handle of the timer: it wakes the timer when a deadline is earlier than the one that the timer is set to.
#[derive(Clone, Debug, Default)]
pub(super) struct Timer(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set_to: AtomicU64,
    /// The earliest deadline that was reported since a scan began.
    reported: AtomicU64,
    notify: Notify,
}

impl Timer {
    /// Something ends at `at`.
    pub(super) fn expect(&self, at: Instant) {
        // In one order with the accesses of `run`: either `run` finds this deadline, or this call finds what the timer
        // is set to.
        self.0.reported.fetch_min(at.as_nanos(), Ordering::SeqCst);
        if at.as_nanos() < self.0.set_to.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Deadlines that are reported from here on are read at the end of the scan. They do not wake the timer, which
    /// would begin another scan.
    fn begin(&self) {
        self.0.reported.store(u64::MAX, Ordering::SeqCst);
        self.0.set_to.store(0, Ordering::SeqCst);
    }

    /// Sets the timer to the earlier of two deadlines: the one that the scan found, and the earliest one that was
    /// reported during the scan.
    fn set(&self, found: Option<Instant>) -> Option<Instant> {
        let mut next = found.map_or(u64::MAX, Instant::as_nanos);
        self.0.set_to.store(next, Ordering::SeqCst);
        next = next.min(self.0.reported.load(Ordering::SeqCst));
        self.0.set_to.store(next, Ordering::SeqCst);
        (next != u64::MAX).then(|| Instant::from_nanos(next))
    }

    pub(super) fn wake(&self) {
        self.0.notify.notify_one();
    }
}

/// Ends with the engine.
pub(super) async fn run(engine: Weak<Engine>, clock: Clock, timer: Timer) {
    let (alarm, wall) = (Alarm::new(clock.clone()), WallAlarm::new(clock.clone()));
    let mut offset = clock.wall_offset();
    loop {
        timer.begin();
        let Some(found) = end_what_is_over(&engine).await else { return };
        let before = std::mem::replace(&mut offset, clock.wall_offset());
        if (offset - before).abs() >= SET {
            suspect_a_pause(&engine);
        }
        let next = timer.set(found);
        let end = async {
            match next {
                Some(at) => alarm.at(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end => {}
            () = timer.0.notify.notified() => {}
            () = wall.set() => {}
        }
    }
}

/// The wall clock was set: the machine may have been paused (by its hypervisor, for a snapshot, for a migration), which
/// no clock of its own counts. What is held is renewed at once.
fn suspect_a_pause(engine: &Weak<Engine>) {
    let Some(engine) = engine.upgrade() else { return };
    engine.events.emit(&Event::ClockAnomaly);
    engine.suspect_all();
}

/// Returns when the next thing ends, if any does; nothing where the engine has ended.
async fn end_what_is_over(engine: &Weak<Engine>) -> Option<Option<Instant>> {
    let mut next = None;
    for session in engine.upgrade()?.open_sessions() {
        let mut last = None;
        loop {
            let part = session.claims.live_after(last, AT_ONCE);
            next = engine.upgrade()?.end_those_over(&session, &part).into_iter().chain(next).min();
            if part.len() < AT_ONCE {
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

impl Engine {
    /// Ends those that are dead, or were left by their attempts, and returns when the first of the others will be.
    fn end_those_over(self: &Arc<Self>, session: &Arc<Session>, holds: &[Arc<Hold>]) -> Option<Instant> {
        let now = self.now();
        let (over, live): (Vec<_>, Vec<_>) = holds.iter().partition(|hold| hold.is_dead() || self.was_left(hold, now));
        for hold in over {
            self.end(session, hold);
        }
        live.into_iter().map(|hold| self.end_of(hold)).min()
    }

    /// When it ends if nothing more is heard of it, nor of its attempt.
    pub(super) fn end_of(&self, hold: &Hold) -> Instant {
        let left = hold.offered().map(|since| since + self.kept(hold));
        left.into_iter().fold(hold.deadline(), Instant::min)
    }

    /// A waiter that died takes a new id. A holder gets an event. What nobody has collected, and what may have been
    /// granted by an answer that nobody reads, is given back: it may have its whole ttl.
    fn end(self: &Arc<Self>, session: &Arc<Session>, hold: &Arc<Hold>) {
        let nobody_has_it = hold.stage() == Stage::InFlight || hold.offered().is_some();
        // Who is here alive was left.
        hold.lose(LostReason::Uncollected);
        let reason = hold.loss().cloned().unwrap_or(LostReason::Expired);
        let expired = hold.stage() == Stage::Granted && reason == LostReason::Expired && hold.renews();
        self.lose(hold, reason);
        if nobody_has_it && hold.begin_release() {
            hold.mark_unsettled();
            self.withdraw_later(hold);
        }
        if !expired {
            return;
        }
        let now = self.now();
        if session.expires_as_one() && session.proven_until(now) <= now {
            // No acknowledged renewal covers any claim of it: the others follow with this one.
            self.end_session(session, &LostReason::Expired);
        } else {
            self.publish_expiry();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[tokio::test]
    async fn a_deadline_during_a_scan_is_read_at_its_end_and_begins_no_other_scan() {
        let timer = Timer::default();
        timer.begin();
        timer.expect(at(50));
        timer.expect(at(70));
        assert_eq!(timer.set(Some(at(60))), Some(at(50)));
        timer.expect(at(55));
        assert!(!has_fired(&timer).await, "nothing is earlier");
        timer.expect(at(40));
        assert!(has_fired(&timer).await, "it is set to something later");
        timer.begin();
        assert_eq!(timer.set(None), None);
        timer.expect(at(90));
        assert!(has_fired(&timer).await, "it is set to nothing");
    }

    /// Whether the timer was woken.
    async fn has_fired(timer: &Timer) -> bool {
        tokio::select! {
            biased;
            () = timer.0.notify.notified() => true,
            () = std::future::ready(()) => false,
        }
    }
}
