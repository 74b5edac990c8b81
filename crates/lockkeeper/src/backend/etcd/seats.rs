//! Seats: the keys of a session in each line, which one claim has after the other.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::layout::Lines;
use super::timers::Timer;
use crate::LockName;
use crate::store::{ClaimId, ClaimKey};
use crate::time::Instant;

/// So many names are remembered for their free seats, whoever uses them.
const NAMES: usize = 1024;
/// For so long something of a claim may come late that sat on a spoiled seat: many times what a tombstone stands.
const LATE: Duration = Duration::from_secs(600);

/// Who sits where, by name. A seat is a key.
#[derive(Debug)]
pub(super) struct Seats {
    taken: HashMap<ClaimId, Seat>,
    names: HashMap<LockName, Free>,
    /// With so many names it is looked who of them can be forgotten.
    most: usize,
}

#[derive(Debug, Default)]
struct Free {
    numbers: Vec<u32>,
    /// The lowest that nobody has had.
    next: u32,
    /// How many seats are taken.
    users: usize,
    /// When somebody left a spoiled seat last.
    spoiled: Option<Instant>,
}

/// Where a claim is.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) at: Bytes,
    /// In the line of this lock.
    name: LockName,
    /// Without one it is this claim's alone.
    number: Option<u32>,
    /// The revision that made it; 0 before that is known. No other claim that sits there has the same.
    pub(super) created: i64,
    /// The claim whose place this one takes, for as long as that may have a seat here.
    heir_of: Option<ClaimId>,
    /// When it was taken.
    since: Instant,
    /// What times the minimum hold of the claim.
    pub(super) timer: Option<Timer>,
    /// What may time it, as far as is known: the answer to that was lost.
    strays: Vec<i64>,
}

impl Seat {
    fn new(at: Bytes, key: &ClaimKey, number: Option<u32>, since: Instant) -> Self {
        Self { at, name: key.name.clone(), number, created: 0, heir_of: None, since, timer: None, strays: Vec::new() }
    }

    /// The leases that only the minimum hold of the claim needs.
    pub(super) fn timers(&self) -> impl Iterator<Item = i64> {
        self.timer.map(|timer| timer.keep.lease).into_iter().chain(self.strays())
    }

    /// Those of which nobody has heard whether they time it.
    pub(super) fn strays(&self) -> impl Iterator<Item = i64> {
        self.strays.iter().copied()
    }

    /// That of a claim which others may have to find.
    pub(super) fn of_its_own(lines: &Lines, key: &ClaimKey, since: Instant) -> Self {
        Self::new(lines.claim(key), key, None, since)
    }
}

impl Default for Seats {
    fn default() -> Self {
        Self { taken: HashMap::new(), names: HashMap::new(), most: NAMES }
    }
}

impl Free {
    /// Of a name that nobody uses, and from which nothing comes late, every seat is free.
    fn is_needed(&self, now: Instant) -> bool {
        self.users > 0 || self.spoiled.is_some_and(|spoiled| now.saturating_since(spoiled) < LATE)
    }
}

impl Seats {
    /// Who has one.
    pub(super) fn all(&self) -> impl Iterator<Item = (ClaimId, &LockName)> {
        self.taken.iter().map(|(id, seat)| (*id, &seat.name))
    }

    pub(super) fn of(&self, id: ClaimId) -> Option<&Seat> {
        self.taken.get(&id)
    }

    /// This revision has made the claim.
    pub(super) fn made(&mut self, id: ClaimId, created: i64) {
        if let Some(seat) = self.taken.get_mut(&id) {
            seat.created = created;
        }
    }

    /// This times the minimum hold of the claim.
    pub(super) fn times(&mut self, id: ClaimId, timer: Timer) {
        if let Some(seat) = self.taken.get_mut(&id) {
            let is_over = seat.timer.map_or(timer.is_over, |before| before.is_over.max(timer.is_over));
            seat.timer = Some(Timer { is_over, ..timer });
            seat.strays.retain(|stray| *stray != timer.keep.lease);
        }
    }

    /// The claim is to take the place of that one.
    pub(super) fn replaces(&mut self, id: ClaimId, old: Option<ClaimId>) {
        if let Some(seat) = self.taken.get_mut(&id) {
            seat.heir_of = old;
        }
    }

    /// The claim has taken the place of this one, which is said once.
    pub(super) fn has_replaced(&mut self, id: ClaimId) -> Option<ClaimId> {
        self.taken.get_mut(&id).and_then(|seat| seat.heir_of.take())
    }

    /// This may time the minimum hold of the claim.
    pub(super) fn may_time(&mut self, id: ClaimId, lease: i64) {
        if let Some(seat) = self.taken.get_mut(&id) {
            seat.strays.push(lease);
        }
    }

    /// Nobody else gets the seat of this claim, not even when that has left it.
    pub(super) fn spoil(&mut self, id: ClaimId) {
        if let Some(seat) = self.taken.get_mut(&id) {
            seat.number = None;
        }
    }

    /// Whether somebody sits there who has come less than a life before this, or after it.
    pub(super) fn has_taken_within(&self, at: &Bytes, life: Duration, then: Instant) -> bool {
        self.taken.values().any(|seat| seat.at == *at && then.saturating_since(seat.since) < life)
    }

    pub(super) fn take(&mut self, lines: &Lines, key: &ClaimKey, now: Instant) -> Seat {
        if self.names.len() >= self.most {
            self.names.retain(|_, free| free.is_needed(now));
            // So that a name costs the same, however many are needed.
            self.most = (2 * self.names.len()).max(NAMES);
        }
        let free = self.names.entry(key.name.clone()).or_default();
        free.users += 1;
        let number = free.numbers.pop().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        });
        let seat = Seat::new(lines.seat(key, number), key, Some(number), now);
        self.taken.insert(key.id, seat.clone());
        seat
    }

    /// One that others may have to find.
    pub(super) fn take_its_own(&mut self, lines: &Lines, key: &ClaimKey, now: Instant) -> Seat {
        let seat = Seat::of_its_own(lines, key, now);
        self.taken.insert(key.id, seat.clone());
        seat
    }

    pub(super) fn free(&mut self, key: &ClaimKey, now: Instant) {
        let (Some(seat), Some(free)) = (self.taken.remove(&key.id), self.names.get_mut(&key.name)) else { return };
        free.users -= 1;
        match seat.number {
            Some(number) => free.numbers.push(number),
            // What is kept there is there until its minimum hold is over.
            None => {
                let until = seat.timer.map_or(now, |timer| timer.is_over.max(now));
                free.spoiled = free.spoiled.max(Some(until));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::layout::Layout;
    use crate::store::SessionId;
    use crate::time::Clock;

    fn key(name: &str) -> ClaimKey {
        ClaimKey { name: name.parse().unwrap(), session: SessionId::new("6c0ffee"), id: ClaimId::random() }
    }

    #[test]
    fn a_seat_is_free_again_when_it_was_left_and_never_when_it_was_spoiled() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let mut seats = Seats::default();
        let [a, b, c] = [key("n"), key("n"), key("n")];
        let first = seats.take(&lines, &a, now).at;
        let second = seats.take(&lines, &b, now).at;
        assert_ne!(first, second);
        assert_ne!(seats.take(&lines, &key("m"), now).at, first, "another line has seats of its own");
        seats.free(&a, now);
        assert_eq!(seats.take(&lines, &c, now).at, first);
        seats.spoil(b.id);
        assert_eq!(seats.of(b.id).map(|seat| &seat.at), Some(&second), "until it has left");
        seats.free(&b, now);
        assert!(seats.of(b.id).is_none());
        seats.free(&c, now);
        let after: Vec<_> = (0..3).map(|_| seats.take(&lines, &key("n"), now).at).collect();
        assert!(after.contains(&first) && !after.contains(&second), "{after:?}");
    }

    #[test]
    fn names_that_nobody_uses_are_forgotten_and_spoiled_seats_are_not() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let (mut seats, spoiled) = (Seats::default(), key("spoiled"));
        let at = seats.take(&lines, &spoiled, now).at;
        seats.spoil(spoiled.id);
        seats.free(&spoiled, now);
        for number in 0..3 * NAMES {
            let key = key(&format!("n{number}"));
            seats.take(&lines, &key, now);
            seats.free(&key, now);
        }
        assert!(seats.names.len() <= NAMES + 2, "{}", seats.names.len());
        assert_ne!(seats.take(&lines, &key("spoiled"), now).at, at);
    }

    #[test]
    fn a_name_whose_seat_was_spoiled_is_forgotten_once_nothing_can_come_late() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let mut seats = Seats::default();
        let mut spoil = |number: usize, now: Instant| {
            let key = key(&format!("n{number}"));
            seats.take(&lines, &key, now);
            seats.spoil(key.id);
            seats.free(&key, now);
            (seats.names.len(), seats.most)
        };
        for number in 0..4 * NAMES {
            let (names, most) = spoil(number, now);
            assert!(names == number + 1 && most <= 2 * names.max(NAMES), "{names} {most}");
        }
        let later = now + LATE;
        for number in 0..8 * NAMES {
            spoil(4 * NAMES + number, later + Duration::from_millis(1) * u32::try_from(number).unwrap());
        }
        assert!(seats.names.len() <= 9 * NAMES, "{}", seats.names.len());
        assert!(!seats.names.contains_key("n0"));
    }
}
