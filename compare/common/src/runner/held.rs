//! The part `held`, of many held locks: the cost of their renewals, and the delay for other clients
//! meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::{Bench, Goal, Kind, Rounds, Seen, Servers, Spans, Spec, goals};
use crate::clock::{MILLI, SECOND};
use crate::order::{Hold, Order};

/// The limit to take or to release all locks.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The part on one kind of store.
#[derive(Debug)]
pub struct HeldPart {
    /// The requests that the server counts, in one word.
    pub requests: &'static str,
    /// The interval between two uses of another lock, in milliseconds.
    pub every: u64,
    /// The measured seconds, without `--quick`.
    pub measured: u64,
    /// The goals for the rows.
    pub goals: fn(&[HeldRow]) -> Vec<Goal>,
}

/// A line of the table.
#[derive(Debug)]
pub struct HeldRow {
    /// The measured client.
    pub kind: Kind,
    /// The number of locks.
    pub count: usize,
    /// The seconds until all locks are taken.
    taking: f64,
    /// Shares of a core: of the server, and of the client.
    load: [f64; 2],
    /// Bytes for each lock: in the client, and in the server.
    memory: [f64; 2],
    requests: f64,
    /// Locks that the client lost.
    pub lost: u64,
    /// How long the other lock took, in microseconds.
    pub lock: Spans,
}

impl HeldPart {
    /// Measures each client with each number of locks, prints the table, and judges the goals.
    ///
    /// # Errors
    ///
    /// The report cannot be written.
    pub fn run<S: Servers>(&self, bench: &mut Bench<S>, counts: &[(Kind, &[usize])]) -> Result<()> {
        let mut rows = Vec::new();
        for &(kind, counts) in
            counts.iter().filter(|(kind, _)| bench.has(*kind)).collect::<Vec<_>>()
        {
            for &count in counts {
                let Some(row) = bench.attempt(kind, |bench| self.measure(bench, kind, count))
                else {
                    continue;
                };
                bench.report.add(&self.line(&row))?;
                rows.push(row);
            }
        }
        self.print(&rows);
        goals(&(self.goals)(&rows));
        Ok(())
    }

    /// Measures with a client of its own, whose memory is not used yet.
    fn measure<S: Servers>(
        &self,
        bench: &mut Bench<S>,
        kind: Kind,
        count: usize,
    ) -> Result<HeldRow> {
        bench.end(kind);
        // After this the client is connected, its code is compiled, and every page that one lock
        // needs is touched.
        bench.measure(&Spec {
            measured: if kind.is_jvm() { 3 * SECOND } else { 200 * MILLI },
            ..Spec::of(kind)
        })?;
        if kind.is_jvm() {
            // Without this pause the client sent millions of commands and lost thousands of locks.
            // Each lock that was taken while no other was held seems to leave a timer of 10 s,
            // which renews all locks. This is a guess, without a look at the source.
            std::thread::sleep(Duration::from_secs(12));
        }
        let lock = bench.fresh_lock();
        let (server_before, began) = (bench.servers.memory()?, Instant::now());
        let memory = bench.instruct(kind, &Order::Hold(Hold { lock, count }), TIME_LIMIT)?;
        let (taking, server_after) = (began.elapsed().as_secs_f64(), bench.servers.memory()?);
        let measured = if bench.is_quick { 12 } else { self.measured };
        let spec = Spec {
            every: self.every * MILLI,
            warm: SECOND,
            measured: measured * SECOND,
            ..Spec::of(kind)
        };
        let seen = bench.measure(&spec)?;
        let lost = word(&bench.instruct(kind, &Order::Drop, TIME_LIMIT)?, "lost")?;
        bench.end(kind);
        let each = |bytes: u64| if count == 0 { f64::NAN } else { bytes as f64 / count as f64 };
        let client = each(word(&memory, "after")?.saturating_sub(word(&memory, "before")?));
        let server = server_before
            .zip(server_after)
            .map_or(f64::NAN, |(before, after)| each(after.saturating_sub(before)));
        Ok(HeldRow::of(kind, count, taking, [client, server], lost, &seen))
    }

    fn line(&self, row: &HeldRow) -> serde_json::Value {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| row.lock.quantile(share));
        json!({
            "part": "held", "kind": row.kind.name, "locks": row.count, "taking_s": row.taking,
            "server_percent": row.load[0] * 100.0, "client_percent": row.load[1] * 100.0,
            "client_bytes_per_lock": row.memory[0], "server_bytes_per_lock": row.memory[1],
            (format!("{}_per_second", self.requests)): row.requests, "lost": row.lost, "lock_p50_us": p50,
            "lock_p99_us": p99, "lock_max_us": max,
        })
    }

    fn print(&self, rows: &[HeldRow]) {
        let Self { requests, every, .. } = self;
        println!(
            "### Locks that are held and renewed; another one is taken and released each {every} ms\n"
        );
        println!(
            "| client | locks | taken in s | server, client: % of a core | above the load itself | {requests}/s \
             | memory of a lock in client, server: bytes | lost | the other lock: p50 / p99 / max ms |\n\
             |---|---|---|---|---|---|---|---|---|"
        );
        for row in rows {
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| row.lock.quantile(share) / 1e3);
            let bytes = row
                .memory
                .map(|bytes| if bytes.is_nan() { "–".to_owned() } else { format!("{bytes:.0}") });
            println!(
                "| {} | {} | {:.1} | {:.2}, {:.2} | {} | {:.0} | {} | {} | {p50:.3} / {p99:.2} / {max:.2} |",
                row.kind.label,
                row.count,
                row.taking,
                row.load[0] * 100.0,
                row.load[1] * 100.0,
                row.above(rows)
                    .map_or("".to_owned(), |[server, client]| format!("{server:.2}, {client:.2}")),
                row.requests,
                bytes.join(", "),
                row.lost,
            );
        }
        println!();
    }
}

/// `KEY=NUMBER` among the words.
fn word(words: &str, key: &str) -> Result<u64> {
    let word = words.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    word.with_context(|| format!("{words} does not say {key}="))?.parse().map_err(Into::into)
}

impl HeldRow {
    fn of(kind: Kind, count: usize, taking: f64, memory: [f64; 2], lost: u64, seen: &Seen) -> Self {
        let load = [seen.server.cpu, seen.client_cpu]
            .map(|nanos| nanos as f64 / SECOND as f64 / seen.seconds());
        let requests = seen.server.commands as f64 / seen.seconds();
        let lock = Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked));
        Self { kind, count, taking, load, memory, requests, lost, lock }
    }

    /// Load of server and client above their load without held locks, in percent of a core.
    pub fn above(&self, rows: &[Self]) -> Option<[f64; 2]> {
        let alone = rows.iter().find(|other| other.kind == self.kind && other.count == 0)?;
        let [server, client] = [0, 1].map(|of| (self.load[of] - alone.load[of]) * 100.0);
        (self.count > 0).then_some([server, client])
    }

    /// One value, for a goal.
    pub fn once(value: f64) -> Rounds {
        let mut rounds = Rounds::none();
        rounds.add(value);
        rounds
    }
}
