//! Key slots: the keys that a session has in each line, and that its claims use one after the
//! other.
//!
//! etcd goes through every key that a line has ever had until it is compacted. With a key for each
//! claim, a lock had 0.3 of its rate after 18 000 claims (docs/benchmarks.md). Since a slot is used
//! again, a key alone does not name a claim: each request that depends on one names its create
//! revision too (`Incarnation`).

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::LockName;
use crate::keep::Timer;
use crate::layout::Lines;
use crate::store::{ClaimId, ClaimKey};
use crate::time::Instant;

/// The free slots of so many names are remembered.
const NAMES: usize = 1024;
/// A late request of a claim may use a retired slot for so long: many times the life of a
/// tombstone.
const LATE: Duration = Duration::from_secs(600);

/// The slots of a session, by name.
#[derive(Debug)]
pub(crate) struct KeySlots {
    taken: HashMap<ClaimId, KeySlot>,
    names: HashMap<LockName, SlotPool>,
    /// With so many names, the names that are not needed are forgotten.
    most: usize,
}

#[derive(Debug, Default)]
struct SlotPool {
    numbers: Vec<u32>,
    /// The lowest number that no claim has had.
    next: u32,
    /// How many slots are taken.
    users: usize,
    /// When a claim left a retired slot last.
    retired_at: Option<Instant>,
}

/// The key slot of a claim.
#[derive(Clone, Debug)]
pub(crate) struct KeySlot {
    pub(crate) at: Bytes,
    /// The lock.
    name: LockName,
    /// The number of the slot. Without one no other claim gets this key.
    number: Option<u32>,
    /// The revision that created the key; 0 before that is known. It distinguishes the claim from
    /// all other claims in this slot.
    pub(crate) created: i64,
    /// The claim that this claim replaces, for as long as that claim may have a slot here.
    heir_of: Option<ClaimId>,
    /// When the claim got the slot.
    since: Instant,
    /// The timer of the claim's minimum hold.
    pub(crate) timer: Option<Timer>,
    /// Leases that may be timers: the answers to the requests that made them were lost.
    strays: Vec<i64>,
}

impl KeySlot {
    fn new(at: Bytes, key: &ClaimKey, number: Option<u32>, since: Instant) -> Self {
        Self {
            at,
            name: key.name.clone(),
            number,
            created: 0,
            heir_of: None,
            since,
            timer: None,
            strays: Vec::new(),
        }
    }

    /// The leases that only the minimum hold of the claim needs.
    pub(crate) fn timers(&self) -> impl Iterator<Item = i64> {
        self.timer.map(|timer| timer.keep.lease).into_iter().chain(self.strays())
    }

    /// The leases that may be timers of the claim: the answers were lost.
    pub(crate) fn strays(&self) -> impl Iterator<Item = i64> {
        self.strays.iter().copied()
    }

    /// The slot of a claim that other processes may have to find: its key has the id of the claim.
    pub(crate) fn private(lines: &Lines, key: &ClaimKey, since: Instant) -> Self {
        Self::new(lines.claim(key), key, None, since)
    }
}

impl Default for KeySlots {
    fn default() -> Self {
        Self { taken: HashMap::new(), names: HashMap::new(), most: NAMES }
    }
}

impl SlotPool {
    /// Whether the name has a slot that is not free: a claim uses it, or a late request may use a
    /// retired one.
    fn is_needed(&self, now: Instant) -> bool {
        self.users > 0
            || self.retired_at.is_some_and(|retired_at| now.saturating_since(retired_at) < LATE)
    }
}

impl KeySlots {
    /// The claims that have a slot.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ClaimId, &LockName)> {
        self.taken.iter().map(|(id, slot)| (*id, &slot.name))
    }

    pub(crate) fn of(&self, id: ClaimId) -> Option<&KeySlot> {
        self.taken.get(&id)
    }

    /// Notes the revision that has created the key of the claim.
    pub(crate) fn made(&mut self, id: ClaimId, created: i64) {
        if let Some(slot) = self.taken.get_mut(&id) {
            slot.created = created;
        }
    }

    /// Notes the timer of the claim.
    pub(crate) fn times(&mut self, id: ClaimId, timer: Timer) {
        if let Some(slot) = self.taken.get_mut(&id) {
            let is_over =
                slot.timer.map_or(timer.is_over, |before| before.is_over.max(timer.is_over));
            slot.timer = Some(Timer { is_over, ..timer });
            slot.strays.retain(|stray| *stray != timer.keep.lease);
        }
    }

    /// Notes that the claim is to replace that one.
    pub(crate) fn replaces(&mut self, id: ClaimId, old: Option<ClaimId>) {
        if let Some(slot) = self.taken.get_mut(&id) {
            slot.heir_of = old;
        }
    }

    /// The claim that this one has replaced. Returned once.
    pub(crate) fn has_replaced(&mut self, id: ClaimId) -> Option<ClaimId> {
        self.taken.get_mut(&id).and_then(|slot| slot.heir_of.take())
    }

    /// Notes that this lease may be the timer of the claim.
    pub(crate) fn may_time(&mut self, id: ClaimId, lease: i64) {
        if let Some(slot) = self.taken.get_mut(&id) {
            slot.strays.push(lease);
        }
    }

    /// Retires the slot: no other claim gets it, not even after this claim has left.
    pub(crate) fn retire(&mut self, id: ClaimId) {
        if let Some(slot) = self.taken.get_mut(&id) {
            slot.number = None;
        }
    }

    /// Whether a claim has got this slot less than a ttl before this moment, or after it.
    pub(crate) fn has_taken_within(&self, at: &Bytes, ttl: Duration, then: Instant) -> bool {
        self.taken.values().any(|slot| slot.at == *at && then.saturating_since(slot.since) < ttl)
    }

    pub(crate) fn take(&mut self, lines: &Lines, key: &ClaimKey, now: Instant) -> KeySlot {
        if self.names.len() >= self.most {
            self.names.retain(|_, free| free.is_needed(now));
            // Twice the number, so that the clean-up costs the same for each name, however many are
            // needed.
            self.most = (2 * self.names.len()).max(NAMES);
        }
        let free = self.names.entry(key.name.clone()).or_default();
        free.users += 1;
        let number = free.numbers.pop().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        });
        let slot = KeySlot::new(lines.slot(key, number), key, Some(number), now);
        self.taken.insert(key.id, slot.clone());
        slot
    }

    /// Gives the claim a slot that other processes can find.
    pub(crate) fn take_private(&mut self, lines: &Lines, key: &ClaimKey, now: Instant) -> KeySlot {
        let slot = KeySlot::private(lines, key, now);
        self.taken.insert(key.id, slot.clone());
        slot
    }

    pub(crate) fn release(&mut self, id: ClaimId, now: Instant) {
        let Some(slot) = self.taken.remove(&id) else { return };
        let Some(free) = self.names.get_mut(&slot.name) else { return };
        free.users -= 1;
        match slot.number {
            Some(number) => free.numbers.push(number),
            // The key may be there until the minimum hold is over.
            None => {
                let until = slot.timer.map_or(now, |timer| timer.is_over.max(now));
                free.retired_at = free.retired_at.max(Some(until));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::SessionId;
    use crate::time::Clock;

    fn key(name: &str) -> ClaimKey {
        ClaimKey {
            name: name.parse().unwrap(),
            session: SessionId::new("6c0ffee"),
            id: ClaimId::random(),
        }
    }

    #[test]
    fn a_slot_is_free_again_after_a_release_and_never_after_its_retirement() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let mut slots = KeySlots::default();
        let [a, b, c] = [key("n"), key("n"), key("n")];
        let first = slots.take(&lines, &a, now).at;
        let second = slots.take(&lines, &b, now).at;
        assert_ne!(first, second);
        assert_ne!(slots.take(&lines, &key("m"), now).at, first, "another line has its own slots");
        slots.release(a.id, now);
        assert_eq!(slots.take(&lines, &c, now).at, first);
        slots.retire(b.id);
        assert_eq!(slots.of(b.id).map(|slot| &slot.at), Some(&second), "until it has left");
        slots.release(b.id, now);
        assert!(slots.of(b.id).is_none());
        slots.release(c.id, now);
        let after: Vec<_> = (0..3).map(|_| slots.take(&lines, &key("n"), now).at).collect();
        assert!(after.contains(&first) && !after.contains(&second), "{after:?}");
    }

    #[test]
    fn names_that_nobody_uses_are_forgotten_and_retired_slots_are_not() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let (mut slots, retired) = (KeySlots::default(), key("retired"));
        let at = slots.take(&lines, &retired, now).at;
        slots.retire(retired.id);
        slots.release(retired.id, now);
        for number in 0..3 * NAMES {
            let key = key(&format!("n{number}"));
            slots.take(&lines, &key, now);
            slots.release(key.id, now);
        }
        assert!(slots.names.len() <= NAMES + 2, "{}", slots.names.len());
        assert_ne!(slots.take(&lines, &key("retired"), now).at, at);
    }

    #[test]
    fn a_name_with_a_retired_slot_is_forgotten_once_nothing_can_come_late() {
        let (lines, now) = (Lines::new(Layout::Native, None), Clock::boot().now());
        let mut slots = KeySlots::default();
        let mut retire = |number: usize, now: Instant| {
            let key = key(&format!("n{number}"));
            slots.take(&lines, &key, now);
            slots.retire(key.id);
            slots.release(key.id, now);
            (slots.names.len(), slots.most)
        };
        for number in 0..4 * NAMES {
            let (names, most) = retire(number, now);
            assert!(names == number + 1 && most <= 2 * names.max(NAMES), "{names} {most}");
        }
        let later = now + LATE;
        for number in 0..8 * NAMES {
            retire(
                4 * NAMES + number,
                later + Duration::from_millis(1) * u32::try_from(number).unwrap(),
            );
        }
        assert!(slots.names.len() <= 9 * NAMES, "{}", slots.names.len());
        assert!(!slots.names.contains_key("n0"));
    }
}
