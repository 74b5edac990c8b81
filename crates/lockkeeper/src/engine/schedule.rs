//! The claims of a session, by their ids and by when they are to be renewed: among a hundred thousand the few that are
//! due are found without a look at the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::Hold;
use crate::store::ClaimId;
use crate::time::Instant;

#[derive(Debug, Default)]
pub(super) struct ClaimSchedule {
    /// In an order, so that a run that draws the same ids asks for the same.
    claims: BTreeMap<ClaimId, Arc<Hold>>,
    /// Those of them that have a time.
    due: BTreeSet<(Instant, ClaimId)>,
}

impl ClaimSchedule {
    pub(super) fn insert(&mut self, hold: &Arc<Hold>) {
        self.claims.insert(hold.key.id, Arc::clone(hold));
        self.due.extend(hold.due().map(|at| (at, hold.key.id)));
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, hold: &Hold) -> bool {
        if let Some(at) = hold.due() {
            self.due.remove(&(at, hold.key.id));
        }
        self.claims.remove(&hold.key.id).is_some()
    }

    pub(super) fn set_due(&mut self, hold: &Hold, at: Option<Instant>) {
        let id = hold.key.id;
        let before = hold.swap_due(at);
        if before == at || !self.claims.contains_key(&id) {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, id));
        }
        self.due.extend(at.map(|at| (at, id)));
    }

    /// Those that are due by then, the earliest first.
    pub(super) fn due_by(&self, by: Instant) -> Vec<Arc<Hold>> {
        let ids = self.due.iter().take_while(|(at, _)| *at <= by).map(|(_, id)| id);
        ids.filter_map(|id| self.claims.get(id)).map(Arc::clone).collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<&Arc<Hold>> {
        self.claims.get(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.claims.values()
    }

    /// So many of those that come after this one.
    pub(super) fn after(&self, id: Option<ClaimId>, count: usize) -> Vec<Arc<Hold>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.claims.range((from, Bound::Unbounded)).take(count).map(|(_, hold)| Arc::clone(hold)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::Session;
    use super::*;
    use crate::store::{ClaimKey, SessionId, SessionSpec};
    use crate::time::Clock;

    const TTL: Duration = Duration::from_secs(30);

    fn holds(count: usize) -> Vec<Arc<Hold>> {
        let clock = Clock::boot();
        let spec = SessionSpec::new(TTL, Duration::ZERO);
        let session = Arc::new(Session::new(spec, SessionId::random(), TTL, None, clock.now()));
        let key = || ClaimKey { name: "n".parse().unwrap(), session: session.id.clone(), id: ClaimId::random() };
        (0..count).map(|_| Arc::new(Hold::new(key(), Arc::clone(&session), clock.clone()))).collect()
    }

    proptest! {
        #[test]
        fn who_is_due_is_found_as_if_all_were_looked_at(
            steps in prop::collection::vec((0_usize..6, 0_u8..3, prop::option::of(0_u64..20)), 0..60),
            by in 0_u64..20,
        ) {
            let (mut schedule, holds) = (ClaimSchedule::default(), holds(6));
            let mut inside = [false; 6];
            for (which, what, at) in steps {
                match what {
                    0 => {
                        schedule.insert(&holds[which]);
                        inside[which] = true;
                    }
                    1 => {
                        prop_assert_eq!(schedule.remove(&holds[which]), inside[which]);
                        inside[which] = false;
                    }
                    _ => schedule.set_due(&holds[which], at.map(Instant::from_nanos)),
                }
            }
            let by = Instant::from_nanos(by);
            let mut expected: Vec<_> =
                (0..6).filter(|which| inside[*which] && holds[*which].due().is_some_and(|at| at <= by)).collect();
            expected.sort_by_key(|which| (holds[*which].due(), holds[*which].key.id));
            let expected: Vec<_> = expected.into_iter().map(|which| holds[which].key.id).collect();
            let found: Vec<_> = schedule.due_by(by).iter().map(|hold| hold.key.id).collect();
            prop_assert_eq!(found, expected);
            let first = (0..6).filter(|which| inside[*which]).filter_map(|which| holds[which].due()).min();
            prop_assert_eq!(schedule.next_due(), first);
        }
    }

    #[test]
    fn in_parts_each_is_seen_once() {
        let (mut schedule, holds) = (ClaimSchedule::default(), holds(7));
        holds.iter().for_each(|hold| schedule.insert(hold));
        let (mut seen, mut last) = (Vec::new(), None);
        loop {
            let part = schedule.after(last, 3);
            let Some(end) = part.last() else { break };
            last = Some(end.key.id);
            seen.extend(part.iter().map(|hold| hold.key.id));
        }
        let mut all: Vec<_> = holds.iter().map(|hold| hold.key.id).collect();
        all.sort();
        assert_eq!(seen, all);
    }
}
