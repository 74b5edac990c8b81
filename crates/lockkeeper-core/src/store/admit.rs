//! The rule of admission: which claims of a line hold the lock.
//!
//! > A claim is granted when the weights of all earlier live claims plus its own fit the capacity.
//!
//! Claims of one line may name different capacities: the smallest one counts. Let S be the sum of
//! the weights up to and including a claim, and C the smallest capacity among these claims. The
//! claim is granted iff S ≤ C. Along the line S never falls and C never rises. It follows:
//! - The granted claims are a prefix of the line, and the first claim is always granted.
//! - A granted claim stays granted when other claims leave, or join behind it.
//! - Tokens that are taken in the order of the line never go back.
//! - The weights of the holders together fit the capacity that each of them names. So no holder's
//!   limit is ever exceeded, and the size of a semaphore may change while it is in use.
//!
//! The capacity distinguishes a semaphore from a lock: a mutex or read-write lock has
//! [`MAX`](super::MAX), and a semaphore less. Claims of both kinds are never in one line
//! ([`same_kind`]).

/// What the rule of admission reads of one live claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The weight: [`MAX`](super::MAX) for a mutex or a writer, 1 for a reader, k for k permits.
    pub weight: u32,
    /// The capacity of the lock, as this claim names it.
    pub capacity: u32,
    /// Whether the store has granted it. A grant is sticky: the rule never takes it back.
    pub granted: bool,
}

/// The rule, fed with the live claims of a line from the front.
///
/// ```
/// use lockkeeper::store::admit::{Admission, Demand};
///
/// let reader = Demand { weight: 1, capacity: u32::MAX, granted: false };
/// let writer = Demand { weight: u32::MAX, ..reader };
///
/// let mut line = Admission::new();
/// assert!(line.admit(reader));
/// assert!(line.admit(reader));
/// assert!(!line.admit(writer)); // waits for both readers,
/// assert!(!line.admit(reader)); // and no claim overtakes it
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    sum: u64,
    capacity: u32,
    closed: bool,
}

impl Admission {
    /// The front of a line.
    pub fn new() -> Self {
        Self { sum: 0, capacity: u32::MAX, closed: false }
    }

    /// Returns whether the next claim holds the lock. After the first `false` no claim further back
    /// is admitted, so a store stops its walk there: the cost is O(holders), never O(waiters).
    pub fn admit(&mut self, next: Demand) -> bool {
        self.sum += u64::from(next.weight);
        self.capacity = self.capacity.min(next.capacity);
        if next.granted {
            return true;
        }
        self.closed |= self.sum > u64::from(self.capacity);
        !self.closed
    }

    /// Returns whether a walk can stop: further back, only a claim that was granted before is
    /// admitted.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether claims of these capacities may be in one line: both of locks, or both of
/// semaphores of any size.
pub fn same_kind(one: u32, other: u32) -> bool {
    (one == super::MAX) == (other == super::MAX)
}

/// How many claims at the front of `line` hold the lock.
pub fn admitted(line: impl IntoIterator<Item = Demand>) -> usize {
    let mut rule = Admission::new();
    line.into_iter().take_while(|claim| rule.admit(*claim)).count()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn demand(weight: u32, capacity: u32) -> Demand {
        Demand { weight, capacity, granted: false }
    }

    /// Lines of claims that agree on nothing but that a weight fits its own capacity.
    fn lines() -> impl Strategy<Value = Vec<Demand>> {
        let claim = prop_oneof![
            (1..6_u32).prop_flat_map(
                |capacity| (1..=capacity).prop_map(move |weight| demand(weight, capacity))
            ),
            Just(demand(u32::MAX, u32::MAX)),
            Just(demand(1, u32::MAX)),
        ];
        prop::collection::vec(claim, 0..9)
    }

    /// The rule as the module documents it, for each claim by itself.
    fn granted_by_definition(line: &[Demand], i: usize) -> bool {
        let up_to = &line[..=i];
        let sum: u64 = up_to.iter().map(|c| u64::from(c.weight)).sum();
        up_to.iter().all(|c| sum <= u64::from(c.capacity))
    }

    fn grant(line: &[Demand]) -> Vec<Demand> {
        let holders = admitted(line.iter().copied());
        line.iter().enumerate().map(|(i, c)| Demand { granted: i < holders, ..*c }).collect()
    }

    proptest! {
        #[test]
        fn the_walk_is_the_definition_and_the_granted_are_a_prefix(line in lines()) {
            let holders = admitted(line.iter().copied());
            for i in 0..line.len() {
                prop_assert_eq!(i < holders, granted_by_definition(&line, i));
            }
            prop_assert!(line.is_empty() || holders > 0, "the first is always granted");
        }

        #[test]
        fn the_granted_fit_everybodys_capacity(line in lines()) {
            let held = &line[..admitted(line.iter().copied())];
            let sum: u64 = held.iter().map(|c| u64::from(c.weight)).sum();
            prop_assert!(held.iter().all(|c| sum <= u64::from(c.capacity)));
        }

        #[test]
        fn what_is_granted_stays_granted_when_others_leave_or_join(
            line in lines(), joiners in lines(), leave in prop::collection::vec(any::<bool>(), 9)
        ) {
            let before = grant(&line);
            let mut after: Vec<_> = before.iter().zip(&leave).filter(|(_, gone)| !**gone).map(|(c, _)| *c).collect();
            let left = after.len();
            after.extend(joiners);
            let holders = admitted(after.iter().copied());
            prop_assert!(after.iter().take(left).enumerate().all(|(i, c)| !c.granted || i < holders));
            // A store may keep the grants or compute them from nothing: the holders are the same.
            let afresh = after.iter().map(|c| Demand { granted: false, ..*c });
            prop_assert_eq!(holders, admitted(afresh));
        }

        #[test]
        fn a_grant_outlives_a_claim_that_appears_ahead_of_it(line in lines(), ahead in lines()) {
            let mut all = ahead;
            let inserted = all.len();
            all.extend(grant(&line));
            let mut rule = Admission::new();
            for (i, claim) in all.iter().enumerate() {
                let admitted = rule.admit(*claim);
                prop_assert!(admitted || !claim.granted, "claim {} of {:?} (from {})", i, all, inserted);
            }
        }

        #[test]
        fn the_cost_is_the_number_of_holders(holders in 0..50_u32, waiters in 0..10_000_usize) {
            let walked = Cell::new(0_usize);
            let readers = (0..holders).map(|_| demand(1, u32::MAX));
            let line = readers.chain(std::iter::repeat_n(demand(u32::MAX, u32::MAX), waiters));
            let counted = line.inspect(|_| walked.set(walked.get() + 1));
            admitted(counted);
            prop_assert!(walked.get() <= holders as usize + 2);
        }
    }

    /// A model of a store: claims join at the end, leave from anywhere, and stay granted.
    fn settle(line: &mut [Demand]) {
        let mut rule = Admission::new();
        for claim in line {
            claim.granted = rule.admit(*claim);
        }
    }

    proptest! {
        #[test]
        fn nobodys_limit_is_exceeded_while_the_size_changes(
            steps in prop::collection::vec((1..=5_u32, 1..=5_u32, any::<bool>(), 0..8_usize), 1..60)
        ) {
            let mut line: Vec<Demand> = Vec::new();
            for (capacity, weight, joins, at) in steps {
                let held_before = line.clone();
                match joins || at >= line.len() {
                    true => line.push(demand(weight.min(capacity), capacity)),
                    false => drop(line.remove(at)),
                }
                let kept: Vec<_> = line.clone();
                settle(&mut line);
                prop_assert!(kept.iter().zip(&line).all(|(old, new)| new.granted >= old.granted), "{:?}", held_before);
                let holders = line.iter().take_while(|c| c.granted).count();
                prop_assert!(line[holders..].iter().all(|c| !c.granted), "no prefix: {:?}", line);
                let sum: u32 = line[..holders].iter().map(|c| c.weight).sum();
                prop_assert!(line[..holders].iter().all(|c| sum <= c.capacity), "{:?}", line);
                let next = line.get(holders);
                let smallest = line.iter().take(holders + 1).map(|c| c.capacity).min();
                prop_assert!(next.is_none_or(|next| Some(sum + next.weight) > smallest), "idle: {:?}", line);
            }
        }
    }

    #[test]
    fn a_semaphore_of_any_size_is_no_lock() {
        assert!(same_kind(3, 5) && same_kind(u32::MAX, u32::MAX));
        assert!(!same_kind(3, u32::MAX) && !same_kind(u32::MAX, 1 << 31));
    }

    #[test]
    fn every_short_line_of_mixed_capacities_keeps_exclusion_when_claims_leave() {
        let mut lines = 0;
        each_line(4, &[1, 2, 4], &mut Vec::new(), &mut |line| {
            lines += 1;
            let before = grant(line);
            for keep in 0..1_u32 << line.len() {
                let kept: Vec<_> =
                    (0..line.len()).filter(|i| keep >> i & 1 == 1).map(|i| before[i]).collect();
                let held = &kept[..admitted(kept.iter().copied())];
                let sum: u64 = held.iter().map(|c| u64::from(c.weight)).sum();
                assert!(held.iter().all(|c| sum <= u64::from(c.capacity)), "{kept:?}");
            }
        });
        assert_eq!(lines, 1 + 7 + 49 + 343 + 2401);
    }

    fn each_line(
        len: usize,
        capacities: &[u32],
        line: &mut Vec<Demand>,
        f: &mut impl FnMut(&[Demand]),
    ) {
        f(line);
        if line.len() == len {
            return;
        }
        for &capacity in capacities {
            for weight in 1..=capacity {
                line.push(demand(weight, capacity));
                each_line(len, capacities, line, f);
                line.pop();
            }
        }
    }
}
