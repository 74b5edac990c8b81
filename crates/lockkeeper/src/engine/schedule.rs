//! The claims of a session, by their ids and by the times of their next renewals: of a hundred
//! thousand claims, the few that are due are found without a look at the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::store::ClaimId;
use crate::time::Instant;

/// Claims, each with the time of its next renewal. Only this type has these times.
#[derive(Debug)]
pub(super) struct ClaimSchedule<C> {
    /// In an order, so a run that draws the same ids sends the same requests.
    claims: BTreeMap<ClaimId, Scheduled<C>>,
    /// The claims that have a time.
    due: BTreeSet<(Instant, ClaimId)>,
}

#[derive(Debug)]
struct Scheduled<C> {
    claim: C,
    due: Option<Instant>,
}

impl<C> Default for ClaimSchedule<C> {
    fn default() -> Self {
        Self { claims: BTreeMap::new(), due: BTreeSet::new() }
    }
}

impl<C: Clone> ClaimSchedule<C> {
    /// Adds a claim, at first without a time.
    pub(super) fn insert(&mut self, id: ClaimId, claim: C) {
        self.claims.entry(id).or_insert(Scheduled { claim, due: None });
    }

    /// Removes a claim; returns whether it was there.
    pub(super) fn remove(&mut self, id: ClaimId) -> bool {
        let Some(removed) = self.claims.remove(&id) else { return false };
        if let Some(at) = removed.due {
            self.due.remove(&(at, id));
        }
        true
    }

    /// Sets the time of a claim. An unknown claim gets no time.
    pub(super) fn set_due(&mut self, id: ClaimId, at: Option<Instant>) {
        let Some(scheduled) = self.claims.get_mut(&id) else { return };
        let before = std::mem::replace(&mut scheduled.due, at);
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, id));
        }
        self.due.extend(at.map(|at| (at, id)));
    }

    /// Makes a claim due no later than `at`.
    pub(super) fn bring_forward(&mut self, id: ClaimId, at: Instant) {
        let due = self.claims.get(&id).and_then(|scheduled| scheduled.due);
        self.set_due(id, Some(due.map_or(at, |due| due.min(at))));
    }

    /// The claims that are due at `by`, the earliest first.
    pub(super) fn due_by(&self, by: Instant) -> Vec<C> {
        let ids = self.due.iter().take_while(|(at, _)| *at <= by).map(|(_, id)| id);
        ids.filter_map(|id| self.get(*id)).cloned().collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<&C> {
        self.claims.get(&id).map(|scheduled| &scheduled.claim)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &C> {
        self.claims.values().map(|scheduled| &scheduled.claim)
    }

    /// The first `count` claims after `id`.
    pub(super) fn after(&self, id: Option<ClaimId>, count: usize) -> Vec<C> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.claims.range((from, Bound::Unbounded)).take(count);
        later.map(|(_, scheduled)| scheduled.claim.clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn who_is_due_is_found_as_if_all_were_looked_at(
            steps in prop::collection::vec((0_usize..6, 0_u8..4, prop::option::of(0_u64..20)), 0..60),
            by in 0_u64..20,
        ) {
            let (mut schedule, ids) = (ClaimSchedule::default(), [(); 6].map(|()| ClaimId::random()));
            // For each claim: not in the schedule, or in it with or without a time.
            let mut model: [Option<Option<Instant>>; 6] = [None; 6];
            for (which, what, at) in steps {
                let (id, at) = (ids[which], at.map(Instant::from_nanos));
                match (what, at) {
                    (0, _) => {
                        schedule.insert(id, which);
                        model[which].get_or_insert(None);
                    }
                    (1, _) => {
                        prop_assert_eq!(schedule.remove(id), model[which].is_some());
                        model[which] = None;
                    }
                    (2, Some(at)) => {
                        schedule.bring_forward(id, at);
                        model[which] = model[which].map(|due| Some(due.map_or(at, |due| due.min(at))));
                    }
                    _ => {
                        schedule.set_due(id, at);
                        model[which] = model[which].map(|_| at);
                    }
                }
            }
            let by = Instant::from_nanos(by);
            let due = |which: &usize| model[*which].flatten();
            let mut expected: Vec<_> = (0..6).filter(|which| due(which).is_some_and(|at| at <= by)).collect();
            expected.sort_by_key(|which| (due(which), ids[*which]));
            prop_assert_eq!(schedule.due_by(by), expected);
            prop_assert_eq!(schedule.next_due(), (0..6).filter_map(|which| due(&which)).min());
            let inside: std::collections::BTreeSet<_> = (0..6).filter(|which| model[*which].is_some()).collect();
            prop_assert_eq!(schedule.all().copied().collect::<std::collections::BTreeSet<_>>(), inside);
        }
    }

    #[test]
    fn in_parts_each_is_seen_once() {
        let (mut schedule, mut all) =
            (ClaimSchedule::default(), [(); 7].map(|()| ClaimId::random()));
        all.iter().for_each(|id| schedule.insert(*id, *id));
        let (mut seen, mut last) = (Vec::new(), None);
        loop {
            let part = schedule.after(last, 3);
            let Some(end) = part.last() else { break };
            last = Some(*end);
            seen.extend(part);
        }
        all.sort();
        assert_eq!(seen, all);
    }
}
