//! Many held locks.

use anyhow::Result;
use compare_common::runner::held::{HeldPart, HeldRow};
use compare_common::runner::{Goal, Kind};

use crate::Bench;
use crate::kinds::{LOCKKEEPER, RLOCK, RUEIDISLOCK};

/// The numbers of locks; the first is the load of the clients that measure alone. rueidislock
/// renews each lock by itself.
const COUNTS: [(Kind, &[usize]); 3] = [
    (LOCKKEEPER, &[0, 10_000, 100_000]),
    (RLOCK, &[0, 10_000, 100_000]),
    (RUEIDISLOCK, &[0, 10_000]),
];

const HELD: HeldPart = HeldPart { requests: "commands", every: 1, measured: 60, goals: compared };

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    HELD.run(bench, &COUNTS)
}

fn compared(rows: &[HeldRow]) -> Vec<Goal> {
    let ours = rows.iter().find(|row| row.kind == LOCKKEEPER && row.count == 100_000);
    let Some((row, [_, client])) = ours.and_then(|row| Some((row, row.above(rows)?))) else {
        return Vec::new();
    };
    vec![
        Goal::at_most(
            "100 000 locks: client, % of a core above the load itself",
            &HeldRow::once(client),
            1.0,
        ),
        Goal::at_most("100 000 locks: locks lost", &HeldRow::once(row.lost as f64), 0.0),
        Goal::at_most(
            "100 000 locks: the other lock, slowest, ms",
            &HeldRow::once(row.lock.quantile(1.0) / 1e3),
            3.0,
        ),
    ]
}
