//! Many clients on one lock: how often it changes hands, how fast, and how fairly.

use anyhow::Result;
use compare_common::clock::{MILLI, SECOND};
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spans, Spec, Turns, goals};
use serde_json::json;

use crate::Bench;
use crate::alone::ALONE;
use crate::etcd::{Etcd, debian};
use crate::kinds::{GO, LOCKKEEPER, LOCKS, PEERS, SHARED};

const CLIENTS: usize = 8;

/// A line of a table.
struct Row {
    kind: Kind,
    awaited: bool,
    hand_offs: Rounds,
    share: Rounds,
    /// Hand-offs for each pair of raw, which is measured right before and after: both wait for two
    /// writes.
    of_raw: Rounds,
    latency: [Rounds; 2],
    wait: [Rounds; 2],
    longest: Rounds,
    jain: Rounds,
    messages: Rounds,
    server: Rounds,
    client: Rounds,
    server_load: Rounds,
    stuck: u64,
    overlaps: u64,
}

/// Runs the part on the current etcd and on Debian's etcd.
pub(crate) fn run(bench: &mut Bench, members: usize) -> Result<()> {
    on_this(bench)?;
    if let Some(program) = debian() {
        let current = bench.move_to(Etcd::start(&program, members)?);
        on_this(bench)?;
        bench.move_to(current);
    }
    Ok(())
}

fn on_this(bench: &mut Bench) -> Result<()> {
    let mut rows = rows(bench);
    for row in &rows {
        // A JVM has to compile first.
        let measured = match (row.kind.is_jvm(), bench.is_quick) {
            (true, true) => 1500,
            (true, false) => 3000,
            _ => 300,
        };
        let spec = Spec { measured: measured * MILLI, ..row.spec(bench.is_quick) };
        bench.attempt(row.kind, |bench| bench.measure(&spec));
    }
    let rounds = if bench.is_quick { 1 } else { 3 };
    for round in 0..rounds {
        let mut before = ALONE.raw(bench, 1)?;
        for row in &mut rows {
            let spec = row.spec(bench.is_quick);
            let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else {
                continue;
            };
            let after = ALONE.raw(bench, 1)?;
            row.add(&seen, before.midpoint(after));
            before = after;
            let line = row.line(round, seen.seconds(), &bench.servers.description());
            bench.report.add(&line)?;
        }
    }
    rows.retain(|row| bench.has(row.kind));
    print(&rows, &bench.servers.description());
    goals(&compared(&rows));
    LOCKS.into_iter().for_each(|kind| bench.end(kind));
    Ok(())
}

fn rows(bench: &Bench) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in LOCKS.into_iter().filter(|kind| bench.has(*kind)) {
        rows.push(Row::new(kind, true));
        if kind == LOCKKEEPER {
            rows.push(Row::new(kind, false));
        }
    }
    rows
}

impl Row {
    fn new(kind: Kind, awaited: bool) -> Self {
        let [hand_offs, share, of_raw, longest, jain, messages] = [const { Rounds::none() }; 6];
        let [server, client, server_load] = [const { Rounds::none() }; 3];
        let [latency, wait] = [const { [const { Rounds::none() }; 2] }; 2];
        Self {
            kind,
            awaited,
            hand_offs,
            share,
            of_raw,
            latency,
            wait,
            longest,
            jain,
            messages,
            server,
            client,
            server_load,
            stuck: 0,
            overlaps: 0,
        }
    }

    fn spec(&self, is_quick: bool) -> Spec {
        let (warm, measured) = if is_quick { (200, 600) } else { (300, 1600) };
        let Self { kind, awaited, .. } = *self;
        let (warm, measured) = (warm * MILLI, measured * MILLI);
        Spec { clients: CLIENTS, awaited, own: false, warm, measured, ..Spec::of(kind) }
    }

    fn add(&mut self, seen: &Seen, raw: f64) {
        let turns = Turns::of(&seen.cycles, CLIENTS, seen.start, seen.end, Spec::TIME_LIMIT);
        let wait = Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked));
        let hand_offs = turns.hand_offs as f64;
        self.hand_offs.add(hand_offs / seen.seconds());
        self.of_raw.add(hand_offs / seen.seconds() / raw);
        self.share.add(hand_offs / turns.grants as f64);
        for (at, share) in [0.5, 0.99].into_iter().enumerate() {
            self.latency[at].add(turns.latency.quantile(share) / 1e3);
            self.wait[at].add(wait.quantile(share) / 1e3);
        }
        self.longest.add(turns.longest_wait / 1e3);
        self.jain.add(turns.jain);
        self.messages.add(seen.server.commands as f64 / hand_offs);
        self.server.add(seen.server.cpu as f64 / 1e3 / hand_offs);
        self.client.add(seen.client_cpu as f64 / 1e3 / hand_offs);
        self.server_load.add(seen.server.cpu as f64 / SECOND as f64 / seen.seconds() * 100.0);
        self.stuck += turns.stuck;
        self.overlaps += turns.overlaps;
    }

    /// The JSON line of the last measurement.
    fn line(&self, round: u32, seconds: f64, server: &str) -> serde_json::Value {
        json!({
            "part": "crowd", "on": server, "kind": self.kind.name, "clients": CLIENTS, "awaited": self.awaited,
            "round": round, "seconds": seconds, "hand_offs_per_second": self.hand_offs.last(),
            "share_of_grants": self.share.last(), "of_raw": self.of_raw.last(), "p50_ms": self.latency[0].last(), "p99_ms": self.latency[1].last(),
            "wait_p50_ms": self.wait[0].last(), "wait_p99_ms": self.wait[1].last(),
            "longest_wait_ms": self.longest.last(), "jain": self.jain.last(),
            "messages_per_hand_off": self.messages.last(), "server_us_per_hand_off": self.server.last(),
            "client_us_per_hand_off": self.client.last(), "server_percent": self.server_load.last(),
            "stuck_so_far": self.stuck, "overlaps_so_far": self.overlaps,
        })
    }
}

fn print(rows: &[Row], server: &str) {
    println!("### {CLIENTS} clients on one lock, held for 0 ms, on {server}\n");
    println!(
        "| client | hand-offs/s | share of grants | of raw's pairs/s | × Go | hand-off p50 / p99 ms | wait p50 / p99 ms | longest wait ms \
         | Jain | messages a hand-off | server, clients: µs a hand-off | server, % of a core | stuck, overlaps |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let go = rows.iter().find(|row| row.kind == GO);
    for row in rows {
        let how = if row.awaited { "" } else { ", guard dropped" };
        let times = go.map_or("".to_owned(), |go| row.hand_offs.over(&go.hand_offs).spread(1));
        let [latency, wait] = [&row.latency, &row.wait]
            .map(|pair| format!("{:.2} / {:.2}", pair[0].median(), pair[1].median()));
        println!(
            "| {}{how} | {} | {:.1} % | {} | {times} | {latency} | {wait} | {:.1} | {:.3} | {:.1} | {:.0}, {:.0} | {:.0} | {}, {} |",
            row.kind.label,
            row.hand_offs.spread(0),
            row.share.median() * 100.0,
            row.of_raw.spread(2),
            row.longest.max(),
            row.jain.median(),
            row.messages.median(),
            row.server.median(),
            row.client.median(),
            row.server_load.median(),
            row.stuck,
            row.overlaps,
        );
    }
    println!();
}

/// The goals for these rows.
fn compared(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let row = |kind| rows.iter().find(|row| row.kind == kind && row.awaited);
    let peers = PEERS.into_iter().filter_map(row);
    let Some(best) = peers.max_by(|a, b| a.hand_offs.median().total_cmp(&b.hand_offs.median()))
    else {
        return goals;
    };
    for ours in [LOCKKEEPER, SHARED].into_iter().filter_map(row) {
        let what = format!(
            "{}: hand-offs, times those of the fastest peer ({})",
            ours.kind.label, best.kind.label
        );
        goals.push(Goal::at_least(what, &ours.hand_offs.over(&best.hand_offs), 10.0));
        goals.push(Goal::at_least(format!("{}: Jain's index", ours.kind.label), &ours.jain, 0.99));
    }
    goals
}
