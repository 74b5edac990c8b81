//! Many locks that are held: what it costs to renew them, and what others notice of it.

use std::time::Duration;

use anyhow::{Context, Result};
use compare_common::clock::{MILLI, SECOND};
use compare_common::order::{Hold, Order};
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{LOCKKEEPER, RLOCK, RUEIDISLOCK};

/// To take and to give back so many locks.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

/// How many locks; the first is the load of those who measure alone. rueidislock renews each by itself.
const COUNTS: [(Kind, &[usize]); 3] =
    [(LOCKKEEPER, &[0, 10_000, 100_000]), (RLOCK, &[0, 10_000, 100_000]), (RUEIDISLOCK, &[0, 10_000])];

/// A line of the table.
struct Row {
    kind: Kind,
    count: usize,
    /// Shares of a core.
    server: f64,
    client: f64,
    /// Bytes for each lock.
    client_memory: f64,
    server_memory: f64,
    lost: u64,
    lock: Spans,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut rows = Vec::new();
    for (kind, counts) in COUNTS {
        if !bench.has(kind) {
            continue;
        }
        for &count in counts {
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
    // Connected, compiled, and every page touched that one lock needs.
    bench.measure(&Spec { measured: if kind.is_jvm() { 3 * SECOND } else { 200 * MILLI }, ..Spec::of(kind) })?;
    if kind.is_jvm() {
        // Without this it sent millions of commands and lost thousands of locks. It looks as if each lock that was taken
        // while it held no other left a timer of 10 s, which renews all there are; its source was not read for it.
        std::thread::sleep(Duration::from_secs(12));
    }
    let lock = bench.fresh_lock();
    let server_before = bench.servers.redis.memory()?;
    let memory = bench.tell(kind, &Order::Hold(Hold { lock, count }), TIME_LIMIT)?;
    let server_after = bench.servers.redis.memory()?;
    let measured = if bench.is_quick { 12 } else { 60 };
    let seen = bench.measure(&Spec { every: MILLI, warm: SECOND, measured: measured * SECOND, ..Spec::of(kind) })?;
    let lost = word(&bench.tell(kind, &Order::Drop, TIME_LIMIT)?, "lost")?;
    bench.end(kind);
    let each = |bytes: u64| if count == 0 { f64::NAN } else { bytes as f64 / count as f64 };
    let client_memory = each(word(&memory, "after")?.saturating_sub(word(&memory, "before")?));
    let server_memory = each(server_after.saturating_sub(server_before));
    Ok(Row { kind, count, client_memory, server_memory, lost, ..Row::of(&seen) })
}

/// `KEY=NUMBER` among the words.
fn word(words: &str, key: &str) -> Result<u64> {
    let word = words.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    word.with_context(|| format!("{words} does not say {key}="))?.parse().map_err(Into::into)
}

impl Row {
    fn of(seen: &Seen) -> Self {
        let share = |nanos: u64| nanos as f64 / SECOND as f64 / seen.seconds();
        Self {
            kind: LOCKKEEPER,
            count: 0,
            server: share(seen.server.cpu),
            client: share(seen.client_cpu),
            client_memory: f64::NAN,
            server_memory: f64::NAN,
            lost: 0,
            lock: Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked)),
        }
    }

    fn line(&self) -> serde_json::Value {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| self.lock.quantile(share));
        json!({
            "part": "held", "kind": self.kind.name, "locks": self.count, "server_percent": self.server * 100.0,
            "client_percent": self.client * 100.0, "client_bytes_per_lock": self.client_memory,
            "server_bytes_per_lock": self.server_memory, "lost": self.lost, "lock_p50_us": p50, "lock_p99_us": p99,
            "lock_max_us": max,
        })
    }
}

fn print(rows: &[Row]) {
    println!("### Locks that are held and renewed; another one is taken and released each millisecond\n");
    println!(
        "| client | locks | server, % of a core | client, % of a core | above the load itself | memory of the client \
         a lock, bytes | of the server | lost | the other lock: p50 / p99 / max ms |\n|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| row.lock.quantile(share) / 1e3);
        let bytes = |bytes: f64| if bytes.is_nan() { "".to_owned() } else { format!("{bytes:.0}") };
        println!(
            "| {} | {} | {:.2} | {:.2} | {} | {} | {} | {} | {p50:.3} / {p99:.2} / {max:.2} |",
            row.kind.label,
            row.count,
            row.server * 100.0,
            row.client * 100.0,
            above(rows, row).map_or("".to_owned(), |[server, client]| format!("{server:.2}, {client:.2}")),
            bytes(row.client_memory),
            bytes(row.server_memory),
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
    let once = |value: f64| {
        let mut rounds = Rounds::none();
        rounds.add(value);
        rounds
    };
    let ours = rows.iter().find(|row| row.kind == LOCKKEEPER && row.count == 100_000);
    let Some((row, [_, client])) = ours.and_then(|row| Some((row, above(rows, row)?))) else { return Vec::new() };
    vec![
        Goal::at_most("100 000 locks: client, % of a core above the load itself", &once(client), 1.0),
        Goal::at_most("100 000 locks: locks lost", &once(row.lost as f64), 0.0),
        Goal::at_most("100 000 locks: the other lock, slowest, ms", &once(row.lock.quantile(1.0) / 1e3), 3.0),
    ]
}
