//! A lock that is taken again and again, and its cost after a while. etcd keeps all old revisions
//! until a client compacts them, and by default no client does.

use anyhow::Result;
use compare_common::clock::SECOND;
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{GO, LOCKKEEPER, SHARED};

/// A line of the table.
struct Row {
    kind: Kind,
    pairs: usize,
    /// Pairs per second, and the median of the claims in microseconds: in the first second, and in
    /// the last second.
    first: [f64; 2],
    last: [f64; 2],
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut rows = Vec::new();
    for kind in [LOCKKEEPER, SHARED, GO] {
        if !bench.has(kind) {
            continue;
        }
        let measured = if bench.is_quick { 5 } else { 12 };
        let spec = Spec { measured: measured * SECOND, ..Spec::of(kind) };
        let Some(seen) = bench.attempt(kind, |bench| bench.measure(&spec)) else { continue };
        let row = Row::of(kind, &seen);
        bench.report.add(&row.line())?;
        rows.push(row);
    }
    print(&rows);
    goals(&compared(&rows));
    Ok(())
}

impl Row {
    fn of(kind: Kind, seen: &Seen) -> Self {
        let within = |start: u64| {
            let cycles =
                seen.cycles.iter().filter(|cycle| (start..start + SECOND).contains(&cycle.granted));
            let waits: Vec<u64> = cycles.map(|cycle| cycle.granted - cycle.asked).collect();
            [waits.len() as f64, Spans::of(waits).quantile(0.5)]
        };
        Self {
            kind,
            pairs: seen.cycles.len(),
            first: within(seen.start),
            last: within(seen.end - SECOND),
        }
    }

    fn line(&self) -> serde_json::Value {
        json!({
            "part": "aged", "kind": self.kind.name, "pairs": self.pairs, "first_per_second": self.first[0],
            "first_lock_p50_us": self.first[1], "last_per_second": self.last[0], "last_lock_p50_us": self.last[1],
        })
    }
}

fn print(rows: &[Row]) {
    println!("### One lock that was taken many times before\n");
    println!(
        "| client | first second: pairs/s, lock p50 µs | pairs | last second: pairs/s, lock p50 µs |\n|---|---|---|---|"
    );
    for Row { kind, pairs, first, last } in rows {
        println!(
            "| {} | {:.0}, {:.0} | {pairs} | {:.0}, {:.0} |",
            kind.label, first[0], first[1], last[0], last[1]
        );
    }
    println!();
}

/// The goals for these rows.
fn compared(rows: &[Row]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.kind.is_lockkeeper());
    let goal = |row: &Row| {
        let mut share = Rounds::none();
        share.add(row.last[0] / row.first[0]);
        Goal::at_least(
            format!("{}: pairs/s after {} pairs, of those at first", row.kind.label, row.pairs),
            &share,
            0.9,
        )
    };
    ours.map(goal).collect()
}
