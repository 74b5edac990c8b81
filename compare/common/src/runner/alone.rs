//! The part `alone`, of locks without contention: the number of pairs of lock and release, and
//! their cost.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::json;

use super::{Bench, Goal, Kind, Rounds, Seen, Servers, Spans, Spec, goals};
use crate::clock::MILLI;

/// The part on one kind of store.
#[derive(Debug)]
pub struct AlonePart {
    /// The ceiling.
    pub raw: Kind,
    /// The other clients.
    pub kinds: &'static [Kind],
    /// The clients with one connection that blocks: they have one task, and may send a release with
    /// the next claim.
    pub blocking: &'static [Kind],
    /// The numbers of tasks of a client, each with rows of its own.
    pub tasks: &'static [usize],
    /// The requests that the server counts, in one word.
    pub requests: &'static str,
    /// The time that the server counts, in one word.
    pub work: &'static str,
    /// The measured times in milliseconds; that of the ceiling first.
    pub measured: [u64; 2],
    /// The goals for the rows.
    pub goals: fn(&[AloneRow]) -> Vec<Goal>,
}

/// A line of the table.
#[derive(Debug)]
pub struct AloneRow {
    /// The measured client.
    pub kind: Kind,
    tasks: usize,
    awaited: bool,
    /// Pairs per second.
    pub rate: Rounds,
    /// The ratio to raw, which is measured right before and after.
    pub share: Rounds,
    /// The time of an acquire, in microseconds: the median, and the 99th percentile.
    pub lock: [Rounds; 2],
    /// The same of a release.
    pub release: [Rounds; 2],
    requests: Rounds,
    /// The time that the server counts for a pair, in microseconds.
    pub work: Rounds,
    server: Rounds,
    client: Rounds,
}

impl AlonePart {
    /// Measures, prints the table, and judges the goals. `on` names the servers if the part runs on
    /// several. Returns the rows.
    ///
    /// # Errors
    ///
    /// The ceiling cannot be measured, or the report not be written.
    pub fn run<S: Servers>(&self, bench: &mut Bench<S>, on: Option<&str>) -> Result<Vec<AloneRow>> {
        let mut rows = self.rows(bench);
        for row in &rows {
            // The first run of a client is slower, and a JVM has to compile first.
            let warm =
                if row.kind.is_jvm() { if bench.is_quick { 1000 } else { 4000 } } else { 200 };
            let spec = Spec { measured: warm * MILLI, ..self.spec(row, bench.is_quick) };
            bench.attempt(row.kind, |bench| bench.measure(&spec));
        }
        let rounds = if bench.is_quick { 2 } else { 5 };
        for round in 0..rounds {
            let mut before = HashMap::new();
            for row in &mut rows {
                let tasks = if self.blocking.contains(&self.raw) { 1 } else { row.tasks };
                let raw = match before.get(&tasks) {
                    Some(raw) => *raw,
                    None => self.raw(bench, tasks)?,
                };
                let spec = self.spec(row, bench.is_quick);
                let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else {
                    continue;
                };
                let after = self.raw(bench, tasks)?;
                row.add(&seen, raw.midpoint(after));
                let mut line = self.line(row, round, seen.seconds());
                line["on"] = json!(on);
                bench.report.add(&line)?;
                before.insert(tasks, after);
            }
        }
        rows.retain(|row| bench.has(row.kind));
        self.print(&rows, on);
        goals(&(self.goals)(&rows));
        Ok(rows)
    }

    /// Pairs per second of the ceiling.
    ///
    /// # Errors
    ///
    /// The ceiling cannot be measured.
    pub fn raw<S: Servers>(&self, bench: &mut Bench<S>, tasks: usize) -> Result<f64> {
        let measured = if bench.is_quick { self.measured[0] / 2 } else { self.measured[0] };
        let spec =
            Spec { tasks, warm: 30 * MILLI, measured: measured * MILLI, ..Spec::of(self.raw) };
        let seen = bench.measure(&spec)?;
        Ok(seen.within().count() as f64 / seen.seconds())
    }

    fn rows<S: Servers>(&self, bench: &Bench<S>) -> Vec<AloneRow> {
        let mut rows = Vec::new();
        for &tasks in self.tasks {
            for &kind in [self.raw].iter().chain(self.kinds) {
                let blocks = self.blocking.contains(&kind);
                if !bench.has(kind) || (blocks && tasks > 1) {
                    continue;
                }
                rows.push(AloneRow::new(kind, tasks, true));
                if blocks || kind.is_lockkeeper() {
                    rows.push(AloneRow::new(kind, tasks, false));
                }
            }
        }
        rows
    }

    fn spec(&self, row: &AloneRow, is_quick: bool) -> Spec {
        let measured = if is_quick { self.measured[1] * 2 / 5 } else { self.measured[1] };
        let AloneRow { kind, tasks, awaited, .. } = *row;
        Spec { tasks, awaited, measured: measured * MILLI, ..Spec::of(kind) }
    }

    /// The JSON line of the last measurement.
    fn line(&self, row: &AloneRow, round: u32, seconds: f64) -> serde_json::Value {
        json!({
            "part": "alone", "kind": row.kind.name, "tasks": row.tasks, "awaited": row.awaited, "round": round,
            "seconds": seconds, "pairs_per_second": row.rate.last(), "share_of_raw": row.share.last(),
            "lock_p50_us": row.lock[0].last(), "lock_p99_us": row.lock[1].last(),
            "release_p50_us": row.release[0].last(), "release_p99_us": row.release[1].last(),
            (format!("{}_per_pair", self.requests)): row.requests.last(),
            (format!("{}_us_per_pair", self.work)): row.work.last(),
            "server_us_per_pair": row.server.last(), "client_us_per_pair": row.client.last(),
        })
    }

    fn print(&self, rows: &[AloneRow], on: Option<&str>) {
        let Self { requests, work, .. } = self;
        let on = on.map_or(String::new(), |servers| format!(", on {servers}"));
        println!("### One client, locks of its own{on}\n");
        println!(
            "| client | tasks | pairs/s | share of raw | lock p50 / p99 µs | release p50 / p99 µs | {requests} a pair \
             | {work}, server, client: µs a pair |\n|---|---|---|---|---|---|---|---|"
        );
        for row in rows {
            let how = match (row.awaited, row.kind.is_lockkeeper()) {
                (true, _) => "",
                (false, true) => ", guard dropped",
                (false, false) => ", release sent with the next claim",
            };
            let [lock, release] = [&row.lock, &row.release]
                .map(|[p50, p99]| format!("{:.0} / {:.0}", p50.median(), p99.median()));
            println!(
                "| {}{how} | {} | {} | {} | {lock} | {release} | {:.2} | {:.1}, {:.1}, {:.1} |",
                row.kind.label,
                row.tasks,
                row.rate.spread(0),
                row.share.spread(2),
                row.requests.median(),
                row.work.median(),
                row.server.median(),
                row.client.median(),
            );
        }
        println!();
    }
}

impl AloneRow {
    fn new(kind: Kind, tasks: usize, awaited: bool) -> Self {
        let [rate, share, requests, work, server, client] = [const { Rounds::none() }; 6];
        let [lock, release] = [const { [const { Rounds::none() }; 2] }; 2];
        Self { kind, tasks, awaited, rate, share, lock, release, requests, work, server, client }
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
        self.requests.add(seen.server.commands as f64 / pairs);
        self.work.add(seen.server.micros as f64 / pairs);
        self.server.add(seen.server.cpu as f64 / 1e3 / pairs);
        self.client.add(seen.client_cpu as f64 / 1e3 / pairs);
    }

    /// The row of a client with one task.
    pub fn of(rows: &[Self], kind: Kind, awaited: bool) -> Option<&Self> {
        rows.iter().find(|row| row.kind == kind && row.tasks == 1 && row.awaited == awaited)
    }
}
