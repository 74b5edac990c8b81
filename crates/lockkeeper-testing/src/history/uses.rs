//! The later operations on each guard.

use std::collections::HashMap;

use super::operations::Operation;
use super::{Broken, Call, Outcome, Violation};

/// The operations on each guard, by the operation that acquired it.
pub(super) struct Uses(HashMap<usize, Use>);

/// The operations on one guard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// The first downgrade.
    pub(super) downgrade: Option<usize>,
    /// The end of the guard: a release, a drop, or an upgrade that was not refused.
    pub(super) end: Option<usize>,
}

impl Uses {
    pub(super) fn of(lock: &str, operations: &[Operation]) -> Result<Self, Violation> {
        let key = |op: &Operation| (op.process.clone(), op.number);
        let numbers: HashMap<_, _> =
            operations.iter().enumerate().map(|(i, op)| (key(op), i)).collect();
        let mut uses: HashMap<usize, Use> = HashMap::new();
        for (i, operation) in operations.iter().enumerate() {
            let Some(of) = operation.guard() else { continue };
            let nonsense =
                |because: &str| Violation::new(lock, Broken::Nonsense, operation, because);
            let guard = numbers.get(&(operation.process.clone(), of)).copied();
            let guard = guard.filter(|guard| operations[*guard].token().is_some());
            let used =
                uses.entry(guard.ok_or_else(|| nonsense("there is no such guard"))?).or_default();
            if used.end.is_some() {
                return Err(nonsense("the guard had been given up"));
            }
            match operation.call {
                // A refused upgrade leaves the guard as it was.
                Call::Upgrade { .. } if operation.outcome == Some(Outcome::Refused) => {}
                Call::Downgrade { .. } => used.downgrade = used.downgrade.or(Some(i)),
                _ => used.end = Some(i),
            }
        }
        Ok(Self(uses))
    }

    pub(super) fn of_guard(&self, guard: usize) -> Use {
        self.0.get(&guard).copied().unwrap_or_default()
    }
}
