//! The time from the release of one process to the grant of the next one, every step on disk.

use crate::Effort;
use crate::figures::{Rounds, Row};
use crate::worker::{Role, Worker};

/// Microseconds, for half of the hand-offs.
const GOAL: f64 = 1000.0;

/// When a process got the lock, and when it called the release.
#[derive(Clone, Copy, Debug)]
struct Turn {
    granted: u64,
    released: u64,
    by: usize,
}

pub(crate) fn measure(effort: Effort) -> Vec<Row> {
    let turns = effort.choose(1500, 10);
    let dir = tempfile::tempdir().unwrap();
    let mut workers =
        [Worker::start(Role::Turns, dir.path(), "n"), Worker::start(Role::Turns, dir.path(), "n")];
    let mut raw = Worker::start(Role::Transactions, dir.path(), "n");
    let before = transaction(&mut raw, effort);
    workers.iter_mut().for_each(|worker| worker.order(turns));
    let mut all: Vec<Turn> = workers
        .iter_mut()
        .enumerate()
        .flat_map(|(by, worker)| parse(&worker.answer(), by))
        .collect();
    all.sort_by_key(|turn| turn.granted);
    let transaction = f64::midpoint(before, transaction(&mut raw, effort));
    let times = handoffs(&all);
    let [p50, p99] = [times.median(), times.quantile(0.99)];
    vec![Row {
        what: "file store: hand-off between 2 processes",
        measured: format!("p50 {:.2} ms, p99 {:.2} ms", p50 / 1e3, p99 / 1e3),
        against: format!("one gated transaction: {:.2} ms", transaction / 1e3),
        result: format!("p50 is {:.1} transactions", p50 / transaction),
        goal: "p50 below 1 ms",
        is_met: p50 < GOAL,
    }]
}

/// From the release of one process to the grant of the other. A grant before the release is an
/// error.
fn handoffs(turns: &[Turn]) -> Rounds {
    let mut times = Rounds::default();
    for pair in turns.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        assert!(later.granted > earlier.released, "two held it: {earlier:?} {later:?}");
        if earlier.by != later.by {
            #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
            times.add((later.granted - earlier.released) as f64 / 1e3);
        }
    }
    times
}

fn parse(answer: &str, by: usize) -> Vec<Turn> {
    let times: Vec<u64> = answer.split(' ').map(|time| time.parse().unwrap()).collect();
    times.chunks_exact(2).map(|turn| Turn { granted: turn[0], released: turn[1], by }).collect()
}

/// Microseconds of one bare transaction.
fn transaction(raw: &mut Worker, effort: Effort) -> f64 {
    let millis = effort.choose(2000, 50);
    raw.order(millis);
    let pairs: u64 = raw.answer().parse().unwrap();
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = millis as f64 * 1e3 / (pairs.max(1) * 2) as f64;
    each
}
