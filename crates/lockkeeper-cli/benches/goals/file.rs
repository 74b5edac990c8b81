//! The file store against the least that any lock in SQLite has to do: two durable transactions
//! behind a gate.

use std::path::Path;

use crate::Effort;
use crate::figures::{Rounds, Row};
use crate::worker::{Role, Worker};

/// Pairs of ours for each pair of bare transactions.
const GOAL: f64 = 0.8;

pub(crate) fn measure(effort: Effort) -> Vec<Row> {
    [("file store: lock + release, 1 process", 1), ("file store: lock + release, 4 processes", 4)]
        .into_iter()
        .map(|(what, processes)| compare(effort, what, processes))
        .collect()
}

fn compare(effort: Effort, what: &'static str, processes: usize) -> Row {
    let (rounds, millis) = (effort.choose(20, 1), effort.choose(500, 100));
    let dir = tempfile::tempdir().unwrap();
    let (mut ours, mut theirs) =
        (team(Role::Pairs, dir.path(), processes), team(Role::Transactions, dir.path(), processes));
    let (mut store, mut raw, mut ratio) = (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        let (a, b) = (per_second(&mut ours, millis), per_second(&mut theirs, millis));
        assert!(a > 0.0 && b > 0.0);
        store.add(a);
        raw.add(b);
        ratio.add(a / b);
    }
    Row {
        what,
        measured: format!("{} /s", store.spread(0)),
        against: format!("two gated transactions: {} /s", raw.spread(0)),
        result: format!("ratio {}", ratio.spread(2)),
        goal: "ratio at least 0.8",
        is_met: ratio.median() >= GOAL,
    }
}

fn team(role: Role, dir: &Path, processes: usize) -> Vec<Worker> {
    (0..processes).map(|number| Worker::start(role, dir, &format!("lock/{number}"))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds and thousands")]
fn per_second(team: &mut [Worker], millis: u64) -> f64 {
    team.iter_mut().for_each(|worker| worker.order(millis));
    let pairs: u64 = team.iter_mut().map(|worker| worker.answer().parse::<u64>().unwrap()).sum();
    pairs as f64 * 1000.0 / millis as f64
}
