//! Many held locks.

use anyhow::Result;
use compare_common::runner::held::{HeldPart, HeldRow};
use compare_common::runner::{Goal, Kind};

use crate::Bench;
use crate::kinds::{GO, LOCKKEEPER, SHARED};

const MANY: usize = 10_000;

/// The numbers of locks. Without held locks, the load is that of lockkeeper or Go itself.
const COUNTS: [(Kind, &[usize]); 3] =
    [(LOCKKEEPER, &[0, MANY]), (SHARED, &[0, MANY]), (GO, &[0, MANY])];
const QUICK: [(Kind, &[usize]); 2] = [(LOCKKEEPER, &[0, MANY]), (GO, &[MANY])];

const HELD: HeldPart = HeldPart { requests: "messages", every: 5, measured: 24, goals: compared };

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let counts: &[_] = if bench.is_quick { &QUICK } else { &COUNTS };
    HELD.run(bench, counts)
}

fn compared(rows: &[HeldRow]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.kind.is_lockkeeper() && row.count == MANY);
    let goal = |row: &HeldRow| {
        Goal::at_most(
            format!("{}: {MANY} locks: lost", row.kind.label),
            &HeldRow::once(row.lost as f64),
            0.0,
        )
    };
    ours.map(goal).collect()
}
