//! The holds of a history: when each was reported as held, its weight, and when the lock may have
//! been free again.

use std::collections::HashMap;
use std::time::Duration;

use super::operations::Operation;
use super::uses::Uses;
use super::{Call, Outcome, Rules};

/// One claim at the store: a guard, or the guards of one owner that share a claim.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// The operation that acquired the claim.
    pub(super) op: usize,
    pub(super) token: u64,
    pub(super) weight: u32,
    /// The capacity that the claim names.
    pub(super) capacity: u32,
    /// The last moment at which the lock is known to have been reported as held.
    pub(super) until: u64,
    /// The first downgrade of the claim.
    pub(super) shared: Option<usize>,
    /// The upgrade that replaced the claim.
    pub(super) swapped: Option<usize>,
    /// The earliest and the latest moment at which the lock was free again.
    pub(super) free: (u64, Option<u64>),
    /// The operation that released the claim, or else the operation that acquired it.
    pub(super) end: usize,
    /// Whether the claim was released in time, and the release was acknowledged.
    pub(super) released: bool,
    /// The operations that acquired guards of the claim.
    guards: Vec<usize>,
}

/// The granted claims, in the order in which their operations began.
pub(super) fn of(operations: &[Operation], uses: &Uses, rules: &Rules) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut owned: HashMap<(u64, u64), usize> = HashMap::new();
    for (op, operation) in operations.iter().enumerate() {
        let Some(token) = operation.token() else { continue };
        let owner = match operation.call {
            Call::Acquire { owner, .. } => owner.map(|owner| (owner, token)),
            _ => None,
        };
        let again = owner.and_then(|owner| owned.get(&owner).copied());
        if let Some(again) =
            again.filter(|hold| !holds[*hold].is_over(operations, uses, operation.began))
        {
            holds[again].guards.push(op);
            continue;
        }
        if let Some(owner) = owner {
            owned.insert(owner, holds.len());
        }
        let (weight, capacity) = share(operation, rules);
        holds.push(Hold::new(op, token, weight, capacity));
    }
    for hold in &mut holds {
        hold.settle(operations, uses, rules);
    }
    holds
}

/// The weight and the capacity of a grant.
fn share(operation: &Operation, rules: &Rules) -> (u32, u32) {
    match operation.call {
        Call::Acquire { weight, of, .. } => (weight, of.unwrap_or(rules.capacity)),
        _ => (rules.capacity, rules.capacity),
    }
}

impl Hold {
    fn new(op: usize, token: u64, weight: u32, capacity: u32) -> Self {
        let guards = vec![op];
        Self {
            op,
            token,
            weight,
            capacity,
            until: 0,
            shared: None,
            swapped: None,
            free: (0, None),
            end: op,
            released: false,
            guards,
        }
    }

    /// Whether all guards of the claim were released before this moment.
    fn is_over(&self, operations: &[Operation], uses: &Uses, at: u64) -> bool {
        let ends =
            self.guards.iter().map(|guard| uses.of_guard(*guard).end.map(|end| &operations[end]));
        let over = |end: &Operation| {
            end.outcome == Some(Outcome::Done) && end.ended.is_some_and(|ended| ended < at)
        };
        ends.into_iter().all(|end| end.is_some_and(over))
    }

    fn settle(&mut self, operations: &[Operation], uses: &Uses, rules: &Rules) {
        let delay = nanos(rules.lock_delay);
        let (mut from, mut by, mut last_seen) = (0, Some(0), 0);
        self.released = true;
        for &guard in &self.guards {
            let used = uses.of_guard(guard);
            let end = used.end.map(|end| &operations[end]);
            let believed = Believed::of(&operations[guard], end);
            self.until = self.until.max(believed.until);
            let (guard_from, guard_by) = believed.free(end, delay);
            if guard_from >= from {
                self.end = used.end.unwrap_or(guard);
            }
            from = from.max(guard_from);
            by = by.zip(guard_by).map(|(by, guard_by)| guard_by.max(by));
            self.released &= end.is_some_and(|end| end.outcome == Some(Outcome::Done));
            last_seen =
                last_seen.max(end.and_then(|end| end.ended).unwrap_or(operations[guard].last_seen));
            self.shared = self.shared.or(used.downgrade);
            self.swapped =
                self.swapped.or(used.end.filter(|end| operations[*end].token().is_some()));
        }
        let lingers = rules.lingers.map(|lingers| from.max(last_seen) + nanos(lingers));
        self.free = (from, by.or(lingers));
        self.released |= self.swapped.is_some();
    }

    /// The time from which the guard reported the lock as held.
    pub(super) fn since(&self, operations: &[Operation]) -> u64 {
        operations[self.op].ended.unwrap_or(u64::MAX)
    }
}

/// How long a guard reported the lock as held.
struct Believed {
    until: u64,
    /// The time until which the guard might have reported it, by its last look.
    forecast: u64,
}

impl Believed {
    /// If the end of the guard is recorded, the guard reported the lock as held up to that end, as
    /// far as the last look allows it. Otherwise the last look is the last proof. A grant alone is
    /// no proof, since the lock may be lost before anybody looks.
    fn of(guard: &Operation, end: Option<&Operation>) -> Self {
        let seen = guard.looks.iter().map(|(at, _)| *at).max().unwrap_or(guard.began);
        let forecast = guard.looks.iter().map(|(_, until)| *until).max().unwrap_or(guard.began);
        let until = end.map_or(seen, |end| seen.max(forecast.min(end.began)));
        Self { until, forecast }
    }

    /// The earliest and the latest moment at which the store may have given the lock away.
    fn free(&self, end: Option<&Operation>, delay: u64) -> (u64, Option<u64>) {
        let lost = self.until + delay;
        let Some(end) = end else { return (lost, None) };
        match end.outcome {
            Some(Outcome::Done | Outcome::Granted { .. })
                if !matches!(end.call, Call::Drop { .. }) =>
            {
                (end.began, end.ended)
            }
            // A release that found no claim may mean that an earlier copy had released it.
            _ if self.forecast >= end.began => (end.began, None),
            _ => (lost.min(end.began), None),
        }
    }
}

pub(super) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4)
}
