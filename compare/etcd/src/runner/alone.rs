//! Locks that nobody else wants: how many pairs of lock and release, and what they cost.

use anyhow::Result;
use compare_common::clock::MILLI;
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{LOCKKEEPER, LOCKS, PEERS, RAW, SHARED};

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
    messages: Rounds,
    disk: Rounds,
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
        let mut before = [raw(bench, 1)?, raw(bench, 64)?];
        for row in &mut rows {
            let spec = row.spec(bench.is_quick);
            let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else { continue };
            let (at, tasks) = if row.tasks == 1 { (0, 1) } else { (1, 64) };
            let after = raw(bench, tasks)?;
            row.add(&seen, before[at].midpoint(after));
            bench.report.add(&row.line(round, seen.seconds()))?;
            before[at] = after;
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
        for kind in [RAW].into_iter().chain(LOCKS) {
            if !bench.has(kind) {
                continue;
            }
            rows.push(Row::new(kind, tasks, true));
            if kind.is_lockkeeper() {
                rows.push(Row::new(kind, tasks, false));
            }
        }
    }
    rows
}

/// Pairs per second of the ceiling.
pub(crate) fn raw(bench: &mut Bench, tasks: usize) -> Result<f64> {
    let measured = if bench.is_quick { 150 } else { 300 };
    let seen = bench.measure(&Spec { tasks, warm: 30 * MILLI, measured: measured * MILLI, ..Spec::of(RAW) })?;
    Ok(seen.within().count() as f64 / seen.seconds())
}

impl Row {
    fn new(kind: Kind, tasks: usize, awaited: bool) -> Self {
        let [rate, share, messages, disk, server, client] = [const { Rounds::none() }; 6];
        let [lock, release] = [const { [const { Rounds::none() }; 2] }; 2];
        Self { kind, tasks, awaited, rate, share, lock, release, messages, disk, server, client }
    }

    fn spec(&self, is_quick: bool) -> Spec {
        let measured = if is_quick { 300 } else { 700 };
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
        self.messages.add(seen.server.commands as f64 / pairs);
        self.disk.add(seen.server.micros as f64 / pairs);
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
            "messages_per_pair": self.messages.last(), "disk_us_per_pair": self.disk.last(),
            "server_us_per_pair": self.server.last(), "client_us_per_pair": self.client.last(),
        })
    }

    fn is(&self, kind: Kind, tasks: usize, awaited: bool) -> bool {
        self.kind == kind && self.tasks == tasks && self.awaited == awaited
    }
}

fn print(rows: &[Row]) {
    println!("### Locks of one's own\n");
    println!(
        "| client | tasks | pairs/s | share of raw | lock p50 / p99 µs | release p50 / p99 µs | messages a pair \
         | disk, server, client: µs a pair |\n|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let how = if row.awaited { "" } else { ", guard dropped" };
        let [lock, release] =
            [&row.lock, &row.release].map(|pair| format!("{:.0} / {:.0}", pair[0].median(), pair[1].median()));
        println!(
            "| {}{how} | {} | {} | {} | {lock} | {} | {:.1} | {:.0}, {:.0}, {:.0} |",
            row.kind.label,
            row.tasks,
            row.rate.spread(0),
            row.share.spread(2),
            if row.awaited { release } else { "".to_owned() },
            row.messages.median(),
            row.disk.median(),
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
    for kind in [LOCKKEEPER, SHARED] {
        let Some(ours) = row(kind, true) else { continue };
        goals.push(Goal::at_least(format!("{}: pairs awaited, of raw", kind.label), &ours.share, 0.9));
        let peers = PEERS.into_iter().filter_map(|peer| row(peer, true));
        if let Some(best) = peers.max_by(|a, b| a.share.median().total_cmp(&b.share.median())) {
            let what = format!("{}: pairs awaited, of the best peer's ({})", kind.label, best.kind.label);
            goals.push(Goal::at_least(what, &ours.share.over(&best.share), 1.0));
        }
    }
    goals
}
