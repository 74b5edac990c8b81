//! A thousand tasks that each want the same lock once.

use std::time::Duration;

use anyhow::{Context, Result};
use compare_common::clock::{MILLI, SECOND, nanos, sleep_until};
use compare_common::order::{Go, Hold, Order};
use compare_common::runner::{Goal, Kind, Rounds, Servers, Spans, Turns, goals};
use compare_common::trace;
use serde_json::json;

use crate::Bench;
use crate::kinds::{GO, JETCD, LOCKKEEPER, SESSIONS, SHARED, SHARED_SESSIONS, V3LOCK};

const WAITERS: usize = 1000;
const KINDS: [Kind; 6] = [LOCKKEEPER, SESSIONS, SHARED_SESSIONS, GO, V3LOCK, JETCD];
/// The limit for all tasks to join the queue, and for all tasks to be served.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A line of the table.
struct Row {
    kind: Kind,
    /// The number of claims in line, and the seconds until then.
    in_line: (u64, f64),
    served: usize,
    /// From the release of the first holder to the last grant, in seconds.
    seconds: f64,
    hand_off: [f64; 2],
    overlaps: u64,
    /// Processor time for each waiter, from the first claim to the last release, in milliseconds.
    server: f64,
    client: f64,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for kind in KINDS {
        if !bench.has(kind) {
            continue;
        }
        match bench.attempt(kind, |bench| measure(bench, kind)) {
            Some(row) => {
                bench.report.add(&row.line())?;
                without.push((kind, WAITERS - row.served));
                rows.push(row);
            }
            // One error ends the whole measurement: how far the tasks came is unknown.
            None => without.push((kind, WAITERS)),
        }
        // The sessions of the clients would be renewed for ever.
        bench.end(kind);
    }
    print(&rows);
    goals(&compared(&without));
    Ok(())
}

fn measure(bench: &mut Bench, kind: Kind) -> Result<Row> {
    let lock = bench.fresh_lock();
    let trace = bench.trace(0);
    // Another client holds the lock until all tasks are in line: all kinds but lockkeeper's own
    // layout share their locks.
    let (holder, at) = match kind {
        LOCKKEEPER => (LOCKKEEPER, 1),
        SESSIONS => (LOCKKEEPER, 0),
        _ => (SHARED, 0),
    };
    bench.fleet(kind, 1)?;
    let hold = Order::Hold(Hold { lock: lock.clone(), count: 1 });
    let answer = |bench: &mut Bench, order: &Order| {
        let process = bench.fleet(holder, at + 1)?.last_mut().context("there is no holder")?;
        process.order(order)?;
        process.done(TIME_LIMIT)
    };
    answer(bench, &hold)?;
    let (keys, cpu) = (bench.servers.keys()?, bench.servers.counts(kind)?.cpu);
    let client_cpu = bench.fleet(kind, 1)?[0].cpu()?;
    bench.fleet(kind, 1)?[0]
        .order(&Order::Go(go(format!("{lock}-0"), trace.display().to_string())))?;
    // lockkeeper has a queue of its own within a session.
    let in_line = until_come(bench, keys, if kind == LOCKKEEPER { 1 } else { WAITERS as u64 })?;
    let released = nanos();
    answer(bench, &Order::Drop)?;
    bench.fleet(kind, 1)?[0].done(TIME_LIMIT)?;
    let each = |nanos: u64| nanos as f64 / MILLI as f64 / WAITERS as f64;
    let server = each(bench.servers.counts(kind)?.cpu - cpu);
    let client = each(bench.fleet(kind, 1)?[0].cpu()? - client_cpu);
    let cycles = trace::read(&trace)?;
    let turns = Turns::of(&cycles, 1, 0, u64::MAX, 0);
    let last = cycles.iter().map(|cycle| cycle.granted).max().unwrap_or(released);
    let served = cycles.iter().filter(|cycle| cycle.granted > 0).count();
    let seconds = last.saturating_sub(released) as f64 / SECOND as f64;
    let hand_off = hand_offs(&cycles);
    Ok(Row { kind, in_line, served, seconds, hand_off, overlaps: turns.overlaps, server, client })
}

fn go(lock: String, trace: String) -> Go {
    let limit = u64::try_from(TIME_LIMIT.as_nanos()).unwrap_or(u64::MAX);
    let (clients, tasks, most) = (1, WAITERS, 1);
    // No task begins so late.
    let end = nanos() + limit;
    Go {
        lock,
        own: false,
        clients,
        tasks,
        awaited: true,
        hold: 0,
        every: 0,
        most,
        end,
        limit,
        trace,
    }
}

/// Waits until there are this many more keys.
fn until_come(bench: &mut Bench, before: u64, all: u64) -> Result<(u64, f64)> {
    let began = nanos();
    loop {
        let (now, come) = (nanos(), bench.servers.keys()?.saturating_sub(before));
        let after = (now - began) as f64 / SECOND as f64;
        if come >= all || after > TIME_LIMIT.as_secs_f64() / 2.0 {
            // The last tasks still have to begin their watch.
            sleep_until(nanos() + 500 * MILLI);
            return Ok((come, after));
        }
        sleep_until(now + 20 * MILLI);
    }
}

/// The median and the 99 % quantile of the hand-offs, in milliseconds.
fn hand_offs(cycles: &[trace::Cycle]) -> [f64; 2] {
    let mut granted: Vec<_> = cycles.iter().filter(|cycle| cycle.granted > 0).collect();
    granted.sort_unstable_by_key(|cycle| cycle.granted);
    let times = granted.windows(2).map(|pair| pair[1].granted.saturating_sub(pair[0].gave));
    let spans = Spans::of(times);
    [0.5, 0.99].map(|share| spans.quantile(share) / 1e3)
}

impl Row {
    fn line(&self) -> serde_json::Value {
        json!({
            "part": "waiters", "kind": self.kind.name, "in_line": self.in_line.0, "in_line_after_s": self.in_line.1,
            "served": self.served, "seconds": self.seconds, "p50_ms": self.hand_off[0], "p99_ms": self.hand_off[1],
            "overlaps": self.overlaps, "server_ms_per_waiter": self.server, "client_ms_per_waiter": self.client,
        })
    }
}

fn print(rows: &[Row]) {
    println!("### {WAITERS} tasks of one client wait for one lock\n");
    println!(
        "| client | keys in line, after s | all served after s | without the lock | hand-off p50 / p99 ms | overlaps \
         | server, client: ms a waiter |\n|---|---|---|---|---|---|---|"
    );
    for Row { kind, in_line, served, seconds, hand_off: [p50, p99], overlaps, server, client } in
        rows
    {
        println!(
            "| {} | {}, {:.1} | {seconds:.2} | {} | {p50:.2} / {p99:.2} | {overlaps} | {server:.1}, {client:.1} |",
            kind.label,
            in_line.0,
            in_line.1,
            WAITERS - served,
        );
    }
    println!();
}

/// The goal of this part: the number of lockkeeper's tasks without the lock.
fn compared(without: &[(Kind, usize)]) -> Vec<Goal> {
    let ours = without.iter().filter(|(kind, _)| kind.is_lockkeeper());
    let goal = |(kind, without): &(Kind, usize)| {
        let mut rounds = Rounds::none();
        rounds.add(*without as f64);
        Goal::at_most(format!("{}: waiters without the lock", kind.label), &rounds, 0.0)
    };
    ours.map(goal).collect()
}
