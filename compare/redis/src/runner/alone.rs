//! Locks that nobody else wants: how many pairs of lock and release, and what they cost.

use anyhow::Result;
use compare_common::clock::MILLI;
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{
    FAIR, FENCED, LOCKKEEPER, LOCKKEEPER_MT, RAW, REDIS_PY, REDSYNC, RLOCK, RSLOCK, RSLOCK_MT, RUEIDISLOCK, SCRIPTS,
};

const KINDS: [Kind; 12] =
    [RAW, SCRIPTS, LOCKKEEPER, LOCKKEEPER_MT, RSLOCK, RSLOCK_MT, REDSYNC, RUEIDISLOCK, RLOCK, FAIR, FENCED, REDIS_PY];

/// A line of the table.
struct Row {
    kind: Kind,
    tasks: usize,
    awaited: bool,
    rate: Rounds,
    /// Of raw, measured right before and after.
    share: Rounds,
    lock: [Rounds; 2],
    release: [Rounds; 2],
    commands: Rounds,
    script: Rounds,
    server: Rounds,
    client: Rounds,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut rows = rows(bench);
    for row in &rows {
        // The first run is nobody's best, and a JVM has to compile first.
        let warm = if row.kind.is_jvm() { if bench.is_quick { 1000 } else { 4000 } } else { 200 };
        let spec = Spec { measured: warm * MILLI, ..row.spec(bench.is_quick) };
        bench.attempt(row.kind, |bench| bench.measure(&spec));
    }
    let rounds = if bench.is_quick { 2 } else { 5 };
    for round in 0..rounds {
        let mut before = raw(bench)?;
        for row in &mut rows {
            let spec = row.spec(bench.is_quick);
            let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else { continue };
            let after = raw(bench)?;
            row.add(&seen, before.midpoint(after));
            bench.report.add(&row.line(round, seen.seconds()))?;
            before = after;
        }
    }
    rows.retain(|row| bench.has(row.kind));
    print(&rows);
    goals(&compared(&rows));
    Ok(())
}

fn rows(bench: &Bench) -> Vec<Row> {
    let mut rows = Vec::new();
    for tasks in [1, 64] {
        for kind in KINDS {
            let blocks = kind == RAW || kind == SCRIPTS;
            if !bench.has(kind) || (blocks && tasks > 1) {
                continue;
            }
            rows.push(Row::new(kind, tasks, true));
            if blocks || kind.is_lockkeeper() {
                rows.push(Row::new(kind, tasks, false));
            }
        }
    }
    rows
}

/// Pairs per second of the ceiling.
fn raw(bench: &mut Bench) -> Result<f64> {
    let measured = if bench.is_quick { 100 } else { 250 };
    let seen = bench.measure(&Spec { warm: 30 * MILLI, measured: measured * MILLI, ..Spec::of(RAW) })?;
    Ok(seen.within().count() as f64 / seen.seconds())
}

impl Row {
    fn new(kind: Kind, tasks: usize, awaited: bool) -> Self {
        let [rate, share, commands, script, server, client] = [const { Rounds::none() }; 6];
        let [lock, release] = [const { [const { Rounds::none() }; 2] }; 2];
        Self { kind, tasks, awaited, rate, share, lock, release, commands, script, server, client }
    }

    fn spec(&self, is_quick: bool) -> Spec {
        let measured = if is_quick { 250 } else { 600 };
        let Self { kind, tasks, awaited, .. } = *self;
        Spec { tasks, awaited, measured: measured * MILLI, ..Spec::of(kind) }
    }

    fn add(&mut self, seen: &Seen, raw: f64) {
        let pairs = seen.within().count() as f64;
        let rate = pairs / seen.seconds();
        self.rate.add(rate);
        self.share.add(rate / raw);
        let lock = Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked));
        let release = Spans::of(seen.within().map(|cycle| cycle.done - cycle.gave));
        for (at, share) in [0.5, 0.99].into_iter().enumerate() {
            self.lock[at].add(lock.quantile(share));
            self.release[at].add(release.quantile(share));
        }
        self.commands.add(seen.server.commands as f64 / pairs);
        self.script.add(seen.server.micros as f64 / pairs);
        self.server.add(seen.server.cpu as f64 / 1e3 / pairs);
        self.client.add(seen.client_cpu as f64 / 1e3 / pairs);
    }

    /// The last measurement.
    fn line(&self, round: u32, seconds: f64) -> serde_json::Value {
        json!({
            "part": "alone", "kind": self.kind.name, "tasks": self.tasks, "awaited": self.awaited, "round": round,
            "seconds": seconds, "pairs_per_second": self.rate.last(), "share_of_raw": self.share.last(),
            "lock_p50_us": self.lock[0].last(), "lock_p99_us": self.lock[1].last(),
            "release_p50_us": self.release[0].last(), "release_p99_us": self.release[1].last(),
            "commands_per_pair": self.commands.last(), "script_us_per_pair": self.script.last(),
            "server_us_per_pair": self.server.last(), "client_us_per_pair": self.client.last(),
        })
    }

    fn is(&self, kind: Kind, tasks: usize, awaited: bool) -> bool {
        self.kind == kind && self.tasks == tasks && self.awaited == awaited
    }
}

fn print(rows: &[Row]) {
    println!("### One client, locks of its own\n");
    println!(
        "| client | tasks | pairs/s | share of raw | lock p50 / p99 µs | release p50 / p99 µs | commands a pair \
         | their time, µs | server µs | client µs |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let how = match (row.awaited, row.kind.is_lockkeeper()) {
            (true, _) => "",
            (false, true) => ", guard dropped",
            (false, false) => ", release sent with the next claim",
        };
        let [lock, release] =
            [&row.lock, &row.release].map(|[p50, p99]| format!("{:.0} / {:.0}", p50.median(), p99.median()));
        println!(
            "| {}{how} | {} | {:.0} | {} | {lock} | {release} | {:.2} | {:.1} | {:.1} | {:.1} |",
            row.kind.label,
            row.tasks,
            row.rate.median(),
            row.share.spread(2),
            row.commands.median(),
            row.script.median(),
            row.server.median(),
            row.client.median(),
        );
    }
    println!();
}

/// The goals that these rows show.
fn compared(rows: &[Row]) -> Vec<Goal> {
    let row = |kind, awaited| rows.iter().find(|row| row.is(kind, 1, awaited));
    let mut goals = Vec::new();
    let Some(ours) = row(LOCKKEEPER, true) else { return goals };
    if let Some(rslock) = row(RSLOCK, true) {
        goals.push(Goal::at_least("pairs awaited, of rslock's rate", &ours.share.over(&rslock.share), 1.0));
    }
    if let Some(scripts) = row(SCRIPTS, true) {
        let share = ours.share.over(&scripts.share);
        goals.push(Goal::at_least("pairs awaited, of a blocking client with the same scripts", &share, 0.93));
    }
    goals.push(Goal::at_least("pairs awaited, of raw (the dream)", &ours.share, 0.9));
    if let Some(dropped) = row(LOCKKEEPER, false) {
        goals.push(Goal::at_least("guards dropped, one task, of raw awaited", &dropped.share, 1.5));
    }
    goals.push(Goal::at_most("time of the scripts for a pair, µs", &ours.script, 6.0));
    if let Some(rlock) = row(RLOCK, true) {
        goals.push(Goal::at_most("the same, of Redisson's RLock", &ours.script.over(&rlock.script), 1.0));
    }
    goals
}
