//! Many locks that are held: what it costs to renew them, and what others notice of it.

use std::time::Duration;

use anyhow::{Context, Result};
use compare_common::clock::{MILLI, SECOND};
use compare_common::order::{Hold, Order};
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{GO, LOCKKEEPER, SHARED};

/// To take and to give back so many locks.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const MANY: usize = 10_000;

/// A line of the table.
struct Row {
    kind: Kind,
    count: usize,
    /// Seconds to take them all, 64 at once.
    taking: f64,
    /// Shares of a core.
    server: f64,
    client: f64,
    /// Bytes for each lock.
    memory: f64,
    messages: f64,
    lost: u64,
    lock: Spans,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut rows = Vec::new();
    for kind in [LOCKKEEPER, SHARED, GO] {
        for count in [0, MANY] {
            // Nothing that is held is the load itself, which is lockkeeper's or Go's.
            if !bench.has(kind) || (bench.is_quick && (kind == SHARED || (kind, count) == (GO, 0))) {
                continue;
            }
            let Some(row) = bench.attempt(kind, |bench| measure(bench, kind, count)) else { continue };
            bench.report.add(&row.line())?;
            rows.push(row);
        }
    }
    print(&rows);
    goals(&compared(&rows));
    Ok(())
}

/// With a client of its own, whose memory is clean.
fn measure(bench: &mut Bench, kind: Kind, count: usize) -> Result<Row> {
    bench.end(kind);
    // Connected, and every page touched that one lock needs.
    bench.measure(&Spec { measured: 200 * MILLI, ..Spec::of(kind) })?;
    let lock = bench.fresh_lock();
    let began = std::time::Instant::now();
    let memory = bench.tell(kind, &Order::Hold(Hold { lock, count }), TIME_LIMIT)?;
    let taking = began.elapsed().as_secs_f64();
    let measured = if bench.is_quick { 12 } else { 24 };
    let seen =
        bench.measure(&Spec { every: 5 * MILLI, warm: SECOND, measured: measured * SECOND, ..Spec::of(kind) })?;
    let lost = word(&bench.tell(kind, &Order::Drop, TIME_LIMIT)?, "lost")?;
    bench.end(kind);
    let bytes = word(&memory, "after")?.saturating_sub(word(&memory, "before")?);
    let memory = if count == 0 { f64::NAN } else { bytes as f64 / count as f64 };
    Ok(Row { count, taking, memory, lost, ..Row::of(kind, &seen) })
}

/// `KEY=NUMBER` among the words.
fn word(words: &str, key: &str) -> Result<u64> {
    let word = words.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    word.with_context(|| format!("{words} does not say {key}="))?.parse().map_err(Into::into)
}

impl Row {
    fn of(kind: Kind, seen: &Seen) -> Self {
        let share = |nanos: u64| nanos as f64 / SECOND as f64 / seen.seconds();
        Self {
            kind,
            count: 0,
            taking: 0.0,
            server: share(seen.server.cpu),
            client: share(seen.client_cpu),
            memory: f64::NAN,
            messages: seen.server.commands as f64 / seen.seconds(),
            lost: 0,
            lock: Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked)),
        }
    }

    fn line(&self) -> serde_json::Value {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| self.lock.quantile(share));
        json!({
            "part": "held", "kind": self.kind.name, "locks": self.count, "taking_s": self.taking,
            "server_percent": self.server * 100.0, "client_percent": self.client * 100.0,
            "client_bytes_per_lock": self.memory, "messages_per_second": self.messages, "lost": self.lost,
            "lock_p50_us": p50, "lock_p99_us": p99, "lock_max_us": max,
        })
    }
}

fn print(rows: &[Row]) {
    println!("### Locks that are held and renewed; another one is taken and released each 5 ms\n");
    println!(
        "| client | locks | taken in s | server, client: % of a core | above the load itself | messages/s \
         | memory of the client a lock, bytes | lost | the other lock: p50 / p99 / max ms |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| row.lock.quantile(share) / 1e3);
        println!(
            "| {} | {} | {:.1} | {:.1}, {:.1} | {} | {:.0} | {} | {} | {p50:.2} / {p99:.2} / {max:.2} |",
            row.kind.label,
            row.count,
            row.taking,
            row.server * 100.0,
            row.client * 100.0,
            above(rows, row).map_or("".to_owned(), |[server, client]| format!("{server:.1}, {client:.1}")),
            row.messages,
            if row.memory.is_nan() { "".to_owned() } else { format!("{:.0}", row.memory) },
            row.lost,
        );
    }
    println!();
}

/// Percent of a core of server and client above what they need when nothing is held.
fn above(rows: &[Row], row: &Row) -> Option<[f64; 2]> {
    let alone = rows.iter().find(|other| other.kind == row.kind && other.count == 0)?;
    (row.count > 0).then_some([(row.server - alone.server) * 100.0, (row.client - alone.client) * 100.0])
}

/// The goals that these rows show.
fn compared(rows: &[Row]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.kind.is_lockkeeper() && row.count == MANY);
    let goal = |row: &Row| {
        let mut lost = Rounds::none();
        lost.add(row.lost as f64);
        Goal::at_most(format!("{}: {MANY} locks: lost", row.kind.label), &lost, 0.0)
    };
    ours.map(goal).collect()
}
