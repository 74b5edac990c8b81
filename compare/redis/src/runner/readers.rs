//! The cost of a read lock among other readers.

use anyhow::Result;
use compare_common::clock::MILLI;
use compare_common::order::{Hold, Order};
use compare_common::runner::held::TIME_LIMIT;
use compare_common::runner::{Goal, Kind, Rounds, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{LOCKKEEPER_READ, REDISSON_READ};

const OTHERS: usize = 100;

/// A line of the table.
struct Row {
    kind: Kind,
    others: usize,
    script: Rounds,
    rate: Rounds,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut rows = Vec::new();
    for kind in [LOCKKEEPER_READ, REDISSON_READ] {
        if bench.has(kind) {
            rows.extend([0, OTHERS].map(|others| Row {
                kind,
                others,
                script: Rounds::none(),
                rate: Rounds::none(),
            }));
        }
    }
    let rounds = if bench.is_quick { 1 } else { 5 };
    for round in 0..rounds {
        for row in &mut rows {
            bench.attempt(row.kind, |bench| row.measure(bench, round));
        }
    }
    rows.retain(|row| bench.has(row.kind));
    print(&rows);
    let ours = rows.iter().find(|row| row.kind == LOCKKEEPER_READ && row.others == OTHERS);
    let goal = ours.map(|row| {
        Goal::at_most(
            "time of the scripts for a read pair among 100 readers, µs",
            &row.script,
            20.0,
        )
    });
    goals(&Vec::from_iter(goal));
    Ok(())
}

impl Row {
    fn measure(&mut self, bench: &mut Bench, round: u32) -> Result<()> {
        let Self { kind, others, .. } = *self;
        let lock = bench.fresh_lock();
        if others > 0 {
            bench.instruct(
                kind,
                &Order::Hold(Hold { lock: lock.clone(), count: others }),
                TIME_LIMIT,
            )?;
        }
        let spec = Spec { own: false, measured: 400 * MILLI, ..Spec::of(kind) };
        let seen = bench.measure_on(&spec, lock)?;
        if others > 0 {
            bench.instruct(kind, &Order::Drop, TIME_LIMIT)?;
        }
        let pairs = seen.within().count() as f64;
        self.script.add(seen.server.micros as f64 / pairs);
        self.rate.add(pairs / seen.seconds());
        bench.report.add(&json!({
            "part": "readers", "kind": kind.name, "others": others, "round": round,
            "script_us_per_pair": self.script.last(), "pairs_per_second": self.rate.last(),
        }))
    }
}

fn print(rows: &[Row]) {
    println!("### Read locks, one client\n");
    println!(
        "| client | other readers | time of the scripts for a pair, µs | pairs/s |\n|---|---|---|---|"
    );
    for Row { kind, others, script, rate } in rows {
        println!("| {} | {others} | {} | {:.0} |", kind.label, script.spread(1), rate.median());
    }
    println!();
}
