//! The lock of the simplest kind, and a history as steps of this lock.

use std::time::Duration;

use super::holds::Hold;
use super::operations::Operation;
use super::{Call, Outcome, Rules};

/// The number of a claim that was granted.
pub type HoldId = usize;

/// A change of a lock, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A claim gets the lock, if it fits beside the holders by the capacity that each of them
    /// names. Tokens rise.
    Grant {
        /// The claim that holds the lock from now on.
        hold: HoldId,
        /// The weight of the claim.
        weight: u32,
        /// The capacity that the claim names.
        of: u32,
        /// The fencing token of the grant.
        token: u64,
    },
    /// A claim no longer has the lock: it was released, or lost.
    Free {
        /// The claim.
        hold: HoldId,
    },
    /// A writer becomes a reader.
    Share {
        /// The claim of the writer.
        hold: HoldId,
    },
    /// A reader becomes a writer under a new token, if it is the only holder.
    Swap {
        /// The reader.
        old: HoldId,
        /// The writer.
        hold: HoldId,
        /// The fencing token of the writer.
        token: u64,
    },
    /// A claim is refused, since it does not fit beside the holders.
    Refuse {
        /// The weight of the claim.
        weight: u32,
        /// The capacity that the claim names.
        of: u32,
    },
    /// A reader stays a reader, since there are other holders.
    RefuseSwap {
        /// The reader.
        hold: HoldId,
    },
}

/// A step that happens at one moment between two times. Without an end it happens at any later
/// moment, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The earliest moment.
    pub began: u64,
    /// The latest moment.
    pub ended: Option<u64>,
    /// The change.
    pub effect: Effect,
    /// The operation that the step belongs to.
    pub op: usize,
}

/// A lock of the simplest kind: its holders with their weights and capacities, and the last token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    capacity: u32,
    holders: Vec<Holder>,
    last: u64,
}

impl Effect {
    /// Returns whether the effect changes nothing.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refuse { .. } | Self::RefuseSwap { .. })
    }

    /// Returns whether the effect can only help the claims that want the lock.
    pub fn gives_way(&self) -> bool {
        matches!(self, Self::Free { .. } | Self::Share { .. })
    }

    /// The token of the grant.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Grant { token, .. } | Self::Swap { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// A claim that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    hold: HoldId,
    weight: u32,
    of: u32,
}

impl Lock {
    /// A free lock.
    pub fn new(capacity: u32) -> Self {
        Self { capacity, holders: Vec::new(), last: 0 }
    }

    fn fits(&self, weight: u32, of: u32) -> bool {
        let held: u64 = self.holders.iter().map(|holder| u64::from(holder.weight)).sum();
        let smallest =
            self.holders.iter().map(|holder| holder.of).fold(of.min(self.capacity), u32::min);
        held + u64::from(weight) <= u64::from(smallest)
    }

    fn at(&self, hold: HoldId) -> Option<usize> {
        self.holders.iter().position(|holder| holder.hold == hold)
    }

    /// The lock after this effect, or `None` if the effect cannot happen.
    #[must_use]
    pub fn after(&self, effect: &Effect) -> Option<Self> {
        let mut after = self.clone();
        match *effect {
            Effect::Grant { hold, weight, of, token } => {
                if token <= self.last || !self.fits(weight, of) {
                    return None;
                }
                after.holders.push(Holder { hold, weight, of });
                after.last = token;
            }
            Effect::Free { hold } => {
                after.holders.swap_remove(self.at(hold)?);
            }
            Effect::Share { hold } => after.holders[self.at(hold)?].weight = 1,
            Effect::Swap { old, hold, token } => {
                if token <= self.last || self.holders.len() != 1 || self.holders[0].hold != old {
                    return None;
                }
                after.holders = vec![Holder { hold, weight: self.capacity, of: self.capacity }];
                after.last = token;
            }
            Effect::Refuse { weight, of } if self.fits(weight, of) => return None,
            Effect::RefuseSwap { hold } if self.holders.len() < 2 || self.at(hold).is_none() => {
                return None;
            }
            Effect::Refuse { .. } | Effect::RefuseSwap { .. } => {}
        }
        Some(after)
    }
}

/// The steps of a history, in the order in which they began.
pub(super) fn of(operations: &[Operation], holds: &[Hold], rules: &Rules) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (id, hold) in holds.iter().enumerate() {
        let got = &operations[hold.op];
        let mut step =
            |op: usize, began, ended, effect| steps.push(Step { began, ended, effect, op });
        let id_of = |op: usize| holds.iter().position(|hold| hold.op == op);
        if let Some((op, new)) = hold.swapped.and_then(|op| Some((op, id_of(op)?))) {
            let effect = Effect::Swap { old: id, hold: new, token: holds[new].token };
            step(op, operations[op].began, operations[op].ended, effect);
        } else {
            step(hold.end, hold.free.0, hold.free.1, Effect::Free { hold: id });
        }
        if matches!(got.call, Call::Acquire { .. }) {
            let effect = Effect::Grant {
                hold: id,
                weight: hold.weight,
                of: hold.capacity,
                token: hold.token,
            };
            step(hold.op, got.began, got.ended, effect);
        }
        if let Some(op) = hold.shared {
            let done = operations[op].outcome == Some(Outcome::Done);
            step(
                op,
                operations[op].began,
                operations[op].ended.filter(|_| done),
                Effect::Share { hold: id },
            );
        }
    }
    steps.extend(refusals(operations, holds, rules));
    steps.sort_by_key(|step| (step.began, step.ended));
    steps
}

/// The refusals that only a holder can explain.
fn refusals(operations: &[Operation], holds: &[Hold], rules: &Rules) -> Vec<Step> {
    let line = InLine::of(operations, rules);
    let mut steps = Vec::new();
    for (op, operation) in operations.iter().enumerate() {
        let (Some(Outcome::Refused), Some(ended)) = (operation.outcome, operation.ended) else {
            continue;
        };
        if line.had_somebody(operation.began, ended) {
            continue;
        }
        let effect = match operation.call {
            Call::Acquire { weight, of, waits: false, sure: true, .. } => {
                Some(Effect::Refuse { weight, of: of.unwrap_or(rules.capacity) })
            }
            Call::Upgrade { of, sure: true } => holds
                .iter()
                .position(|hold| {
                    let got = &operations[hold.op];
                    got.number == of && got.process == operation.process
                })
                .map(|hold| Effect::RefuseSwap { hold }),
            _ => None,
        };
        steps.extend(effect.map(|effect| Step {
            began: operation.began,
            ended: Some(ended),
            effect,
            op,
        }));
    }
    steps
}

/// The times at which a claim may have waited in line: the waiters, and the claims whose outcome is
/// unknown. These claims are a reason for the store to refuse other claims.
struct InLine(Vec<(u64, u64)>);

impl InLine {
    fn of(operations: &[Operation], rules: &Rules) -> Self {
        let mut line: Vec<(u64, u64)> =
            operations.iter().filter_map(|op| stood(op, rules)).collect();
        line.sort_unstable();
        let mut longest = 0;
        for (_, until) in &mut line {
            longest = longest.max(*until);
            *until = longest;
        }
        Self(line)
    }

    fn had_somebody(&self, from: u64, to: u64) -> bool {
        let before = self.0.partition_point(|(began, _)| *began <= to);
        before.checked_sub(1).is_some_and(|last| self.0[last].1 >= from)
    }
}

fn stood(operation: &Operation, rules: &Rules) -> Option<(u64, u64)> {
    let lingers =
        rules.lingers.map_or(u64::MAX / 2, |lingers: Duration| super::holds::nanos(lingers));
    let left = operation.ended.unwrap_or(operation.last_seen).saturating_add(lingers);
    match (&operation.call, operation.outcome) {
        (Call::Acquire { waits: true, .. }, Some(Outcome::Granted { .. })) => {
            Some((operation.began, operation.ended.unwrap_or(left)))
        }
        (Call::Acquire { waits: false, .. }, Some(Outcome::Granted { .. } | Outcome::Refused)) => {
            None
        }
        (Call::Acquire { .. }, _) => Some((operation.began, left)),
        (Call::Upgrade { .. }, None | Some(Outcome::Unknown | Outcome::Lost)) => {
            Some((operation.began, left))
        }
        _ => None,
    }
}
