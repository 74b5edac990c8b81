//! The claims of a session whose minimum hold a timer times, and their moves to it.

use std::time::Duration;

use super::super::seats::Timer;
use super::{Inner, Purpose, Session};
use crate::store::ClaimId;
use crate::time::Instant;

/// A claim that changes its lease for a timer.
#[derive(Debug)]
pub(in super::super) struct Moving<'a> {
    session: &'a Session,
    id: ClaimId,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.session.lock().begins_or_ends_to_move(self.id, false);
    }
}

impl Session {
    /// This times the minimum hold of a claim, which is on that lease now.
    pub(in super::super) fn is_timed(&self, id: ClaimId, timer: &Timer, on: i64) {
        let mut inner = self.lock();
        inner.seats.times(id, *timer);
        inner.is_on(id, on);
    }

    /// The claim is about to change its lease for a timer, until the answer is dropped.
    pub(in super::super) fn moving(&self, id: ClaimId) -> Moving<'_> {
        self.lock().begins_or_ends_to_move(id, true);
        Moving { session: self, id }
    }

    /// How often one of the claims has begun or ended to change its lease.
    pub(in super::super) fn moves(&self) -> u64 {
        self.lock().moves
    }

    /// Whether the claim may have changed its lease after that: a renewal that began then may have seen it where it was.
    pub(in super::super) fn has_moved_since(&self, id: ClaimId, moves: u64) -> bool {
        self.lock().seats.of(id).is_some_and(|seat| seat.is_moving || seat.moved > moves)
    }

    /// This times the minimum hold that a claim inherits.
    pub(in super::super) fn times(&self, id: ClaimId, timer: Timer) {
        self.lock().seats.times(id, timer);
    }

    /// What times the minimum hold of a claim here, if anything does.
    pub(in super::super) fn timer(&self, id: ClaimId) -> Option<Timer> {
        self.lock().seats.of(id).and_then(|seat| seat.timer)
    }

    /// Whether what times this claim is known here, if anything does: what sits there was claimed by nobody else, or is gone.
    pub(in super::super) fn knows(&self, id: ClaimId) -> bool {
        self.life.is_some() && (self.shares_seats || self.place(id).is_some())
    }

    /// Until when a lease lives at least, if it is one of this session.
    pub(in super::super) fn lives_until(&self, lease: i64) -> Option<Instant> {
        self.life?;
        let inner = self.lock();
        let lease = inner.leases.iter().find(|own| own.id == lease && own.ready)?;
        let life = if lease.purpose == Purpose::Hold { self.hold } else { self.wait };
        Some(lease.renewed + Duration::from_secs(life.unsigned_abs()))
    }
}

impl Inner {
    fn begins_or_ends_to_move(&mut self, id: ClaimId, is_moving: bool) {
        self.moves += 1;
        self.seats.moves(id, is_moving, self.moves);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::{Layout, Lines};
    use super::super::{Sessions, name_of};
    use super::*;
    use crate::store::ClaimKey;

    #[test]
    fn a_renewal_that_meets_a_move_to_a_timer_knows_of_it() {
        let session = Sessions::default().get(&name_of(7)).unwrap();
        let key = ClaimKey { name: "a".parse().unwrap(), session: name_of(7), id: ClaimId::random() };
        session.seat(&Lines::new(Layout::Native, None), &key, Instant::from_nanos(0));
        let before = session.moves();
        assert!(!session.has_moved_since(key.id, before));
        let moving = session.moving(key.id);
        let meanwhile = session.moves();
        assert!(session.has_moved_since(key.id, before) && session.has_moved_since(key.id, meanwhile));
        drop(moving);
        assert!(session.has_moved_since(key.id, before) && session.has_moved_since(key.id, meanwhile));
        assert!(!session.has_moved_since(key.id, session.moves()));
    }
}
