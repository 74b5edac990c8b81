//! Whether a session is in danger: its renewals fail, or its store may have forgotten held claims.
//!
//! After a report of the store (a connection was made again) every held claim is in doubt, until a
//! renewal that was sent later has found it held. Any number of such reports makes one round of
//! renewals in each [`ROUNDS_APART`].

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::limits::{ROUND_EACH, ROUND_WITHIN, ROUNDS_APART};
use super::lock::lock;
use crate::random::jittered;
use crate::store::ClaimId;
use crate::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Danger {
    /// The store has reported a new connection, and no round has begun since.
    word: AtomicBool,
    /// When the last round began, in nanoseconds of the clock; zero before the first.
    round: AtomicU64,
    /// The last state that was reported to users.
    shown: AtomicBool,
    why: Mutex<Why>,
}

#[derive(Debug, Default)]
struct Why {
    failing: bool,
    /// The claims that were held when the last round began, or whose renewal failed, and that no
    /// later renewal has found held.
    suspected: BTreeSet<ClaimId>,
}

/// The times at which the claims of a round are renewed.
pub(super) struct Round {
    first: Instant,
}

impl Danger {
    /// Notes that the store may have forgotten held claims. Callable from any thread.
    pub(super) fn suspect(&self) {
        self.word.store(true, Ordering::Release);
    }

    /// When the next round begins, if the store has reported a new connection.
    pub(super) fn next_round(&self) -> Option<Instant> {
        self.word.load(Ordering::Acquire).then(|| self.last_round() + ROUNDS_APART)
    }

    /// Begins a round, if one is due.
    pub(super) fn begin(&self, now: Instant) -> Option<Round> {
        if self.next_round().is_none_or(|at| at > now) {
            return None;
        }
        // The flag is cleared first: a later report makes another round.
        self.word.store(false, Ordering::Release);
        self.round.store(now.as_nanos(), Ordering::Release);
        Some(Round { first: now + ROUND_WITHIN.saturating_sub(jittered(ROUND_WITHIN)) * 5 })
    }

    /// Marks these claims as in doubt.
    pub(super) fn suspect_these(&self, claims: impl Iterator<Item = ClaimId>) {
        lock(&self.why).suspected.extend(claims);
    }

    /// The latest time for the next renewal of a claim whose last answered request was sent at
    /// `sent`: soon, if the store may have forgotten the claim since.
    pub(super) fn again(&self, sent: Instant) -> Option<Instant> {
        let round = self.last_round();
        (sent < round).then(|| round + ROUND_WITHIN)
    }

    /// A request that was sent at `sent` has found these claims held.
    pub(super) fn found(&self, sent: Instant, held: impl Iterator<Item = ClaimId>) {
        let mut why = lock(&self.why);
        if sent >= self.last_round() && !why.suspected.is_empty() {
            for id in held {
                why.suspected.remove(&id);
            }
        }
    }

    /// Notes the outcome of the last renewal, if there was one. Returns whether the session is in
    /// danger, if that has changed. A claim that is no longer `here` is no longer in doubt.
    pub(super) fn book(
        &self,
        failing: Option<bool>,
        here: impl Fn(ClaimId) -> bool,
    ) -> Option<bool> {
        let mut why = lock(&self.why);
        why.failing = failing.unwrap_or(why.failing);
        while why.suspected.first().is_some_and(|id| !here(*id)) {
            why.suspected.pop_first();
        }
        let danger = why.failing || !why.suspected.is_empty();
        (self.shown.swap(danger, Ordering::AcqRel) != danger).then_some(danger)
    }

    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Acquire)
    }

    fn last_round(&self) -> Instant {
        Instant::from_nanos(self.round.load(Ordering::Acquire))
    }
}

impl Round {
    /// When a claim of the round is due, by the number of claims `before` it.
    pub(super) fn due(&self, before: usize) -> Instant {
        self.first + ROUND_EACH * u32::try_from(before).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn many_words_are_one_round() {
        let danger = Danger::default();
        assert!(danger.begin(at(1000)).is_none(), "nobody has said anything");
        let begun = (1000..2000).filter(|ms| {
            danger.suspect();
            danger.begin(at(*ms)).is_some()
        });
        assert_eq!(begun.count(), 4);
    }

    #[test]
    fn a_round_begins_within_a_hundred_milliseconds_and_spreads_what_is_many() {
        let mut latest = at(0);
        for _ in 0..100 {
            let danger = Danger::default();
            danger.suspect();
            let round = danger.begin(at(1000)).unwrap();
            assert!(round.due(0) >= at(1000) && round.due(0) <= at(1100));
            assert_eq!(round.due(100_000).saturating_since(round.due(0)), Duration::from_secs(1));
            latest = latest.max(round.due(0));
        }
        assert!(latest > at(1050), "clients that have lost the same server come all at once");
    }

    #[test]
    fn an_answer_to_an_older_request_ends_no_doubt() {
        let danger = Danger::default();
        let id = ClaimId::random();
        danger.suspect();
        danger.begin(at(1000)).unwrap();
        danger.suspect_these([id].into_iter());
        assert_eq!(danger.book(None, |_| true), Some(true));
        danger.found(at(999), [id].into_iter());
        assert_eq!(danger.book(Some(false), |_| true), None);
        assert_eq!((danger.again(at(999)), danger.again(at(1000))), (Some(at(1100)), None));
        danger.found(at(1000), [id].into_iter());
        assert_eq!(danger.book(Some(false), |_| true), Some(false));
    }
}
