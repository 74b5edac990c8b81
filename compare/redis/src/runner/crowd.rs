//! Many clients on one lock: how often it changes hands, how fast, and how fairly.

use anyhow::Result;
use compare_common::clock::{MILLI, SECOND};
use compare_common::runner::{Goal, Kind, Rounds, Seen, Spec, Turns, goals};
use serde_json::json;

use crate::Bench;
use crate::kinds::{
    FAIR, FENCED, LOCKKEEPER, POSTGRES, REDIS_PY, REDIS_PY_OFTEN, REDSYNC, REDSYNC_OFTEN, RLOCK,
    RSLOCK, RSLOCK_OFTEN, RUEIDISLOCK,
};

const KINDS: [Kind; 13] = [
    LOCKKEEPER,
    POSTGRES,
    FAIR,
    RLOCK,
    FENCED,
    RUEIDISLOCK,
    RSLOCK,
    REDSYNC,
    REDIS_PY,
    RSLOCK_OFTEN,
    REDSYNC_OFTEN,
    REDIS_PY_OFTEN,
    LOCKKEEPER,
];

/// Clients that ask more often than by default. One setting only shows them.
const OFTEN: [Kind; 3] = [RSLOCK_OFTEN, REDSYNC_OFTEN, REDIS_PY_OFTEN];

/// A line of a table.
struct Row {
    kind: Kind,
    awaited: bool,
    hand_offs: Rounds,
    share: Rounds,
    p50: Rounds,
    p99: Rounds,
    longest: Rounds,
    jain: Rounds,
    commands: Rounds,
    server: Rounds,
    server_load: Rounds,
    stuck: u64,
    overlaps: u64,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    for clients in [8, 64] {
        let mut settings = [0, MILLI].map(|hold| (hold, rows(bench, clients, hold)));
        warm_up(bench, clients, &settings);
        let rounds = if bench.is_quick { 1 } else { 3 };
        for round in 0..rounds {
            for (hold, rows) in &mut settings {
                for row in rows {
                    let spec = row.spec(clients, *hold, bench.is_quick);
                    let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else {
                        continue;
                    };
                    row.add(&seen, clients);
                    bench.report.add(&row.line(round, clients, *hold, seen.seconds()))?;
                }
            }
        }
        for (hold, rows) in &mut settings {
            rows.retain(|row| bench.has(row.kind));
            print(rows, clients, *hold);
            goals(&compared(rows, clients, *hold));
        }
    }
    Ok(())
}

fn rows(bench: &Bench, clients: usize, hold: u64) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for kind in KINDS {
        let is_left_out = OFTEN.contains(&kind) && (bench.is_quick || (clients, hold) != (8, 0));
        if !bench.has(kind) || is_left_out {
            continue;
        }
        // lockkeeper has two rows; the second is without waiting for the releases.
        let is_again = rows.iter().any(|row| row.kind == kind);
        rows.push(Row::new(kind, !is_again));
    }
    rows
}

/// A JVM has to compile first.
fn warm_up(bench: &mut Bench, clients: usize, settings: &[(u64, Vec<Row>)]) {
    for (hold, rows) in settings {
        for row in rows {
            let measured = match (row.kind.is_jvm(), bench.is_quick, *hold) {
                (true, true, 0) => 1000,
                (true, false, 0) => 5000,
                (true, false, _) => 1000,
                (false, false, _) => 200,
                (_, true, _) => 0,
            };
            let spec =
                Spec { measured: measured * MILLI, ..row.spec(clients, *hold, bench.is_quick) };
            bench.attempt(row.kind, |bench| match measured {
                0 => bench.fleet(row.kind, clients).map(|_| ()),
                _ => bench.measure(&spec).map(|_| ()),
            });
        }
    }
}

impl Row {
    fn new(kind: Kind, awaited: bool) -> Self {
        let [hand_offs, share, p50, p99, longest, jain, commands, server, server_load] =
            [const { Rounds::none() }; 9];
        Self {
            kind,
            awaited,
            hand_offs,
            share,
            p50,
            p99,
            longest,
            jain,
            commands,
            server,
            server_load,
            stuck: 0,
            overlaps: 0,
        }
    }

    fn spec(&self, clients: usize, hold: u64, is_quick: bool) -> Spec {
        let (warm, measured) = if is_quick { (200, 500) } else { (300, 1200) };
        let Self { kind, awaited, .. } = *self;
        Spec {
            clients,
            awaited,
            hold,
            own: false,
            warm: warm * MILLI,
            measured: measured * MILLI,
            ..Spec::of(kind)
        }
    }

    fn add(&mut self, seen: &Seen, clients: usize) {
        let turns = Turns::of(&seen.cycles, clients, seen.start, seen.end, Spec::TIME_LIMIT);
        let hand_offs = turns.hand_offs as f64;
        self.hand_offs.add(hand_offs / seen.seconds());
        self.share.add(hand_offs / turns.grants as f64);
        self.p50.add(turns.latency.quantile(0.5) / 1e3);
        self.p99.add(turns.latency.quantile(0.99) / 1e3);
        self.longest.add(turns.longest_wait / 1e3);
        self.jain.add(turns.jain);
        self.commands.add(seen.server.commands as f64 / hand_offs);
        self.server.add(seen.server.cpu as f64 / 1e3 / hand_offs);
        self.server_load.add(seen.server.cpu as f64 / SECOND as f64 / seen.seconds() * 100.0);
        self.stuck += turns.stuck;
        self.overlaps += turns.overlaps;
    }

    /// The JSON line of the last measurement.
    fn line(&self, round: u32, clients: usize, hold: u64, seconds: f64) -> serde_json::Value {
        json!({
            "part": "crowd", "kind": self.kind.name, "clients": clients, "hold_ns": hold, "awaited": self.awaited,
            "round": round, "seconds": seconds, "hand_offs_per_second": self.hand_offs.last(),
            "share_of_grants": self.share.last(), "p50_ms": self.p50.last(), "p99_ms": self.p99.last(),
            "longest_wait_ms": self.longest.last(), "jain": self.jain.last(),
            "commands_per_hand_off": self.commands.last(), "server_us_per_hand_off": self.server.last(),
            "server_percent": self.server_load.last(), "stuck_so_far": self.stuck, "overlaps_so_far": self.overlaps,
        })
    }
}

fn print(rows: &[Row], clients: usize, hold: u64) {
    println!("### {clients} clients on one lock, held for {} ms\n", hold / MILLI);
    println!(
        "| client | hand-offs/s | share of grants | × Redisson fair | hand-off p50 / p99 ms | longest wait ms | Jain \
         | commands a hand-off | server µs a hand-off | server, % of a core | stuck, overlaps |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    let fair = rows.iter().find(|row| row.kind == FAIR);
    for row in rows {
        let how = if row.awaited { "" } else { ", guard dropped" };
        let times =
            fair.map_or("".to_owned(), |fair| row.hand_offs.over(&fair.hand_offs).spread(2));
        let commands = if row.kind == POSTGRES {
            "".to_owned()
        } else {
            format!("{:.1}", row.commands.median())
        };
        println!(
            "| {}{how} | {:.0} | {:.1} % | {times} | {:.2} / {:.2} | {:.1} | {:.3} | {commands} | {:.0} | {:.0} | {}, {} |",
            row.kind.label,
            row.hand_offs.median(),
            row.share.median() * 100.0,
            row.p50.median(),
            row.p99.median(),
            row.longest.max(),
            row.jain.median(),
            row.server.median(),
            row.server_load.median(),
            row.stuck,
            row.overlaps,
        );
    }
    println!();
}

/// The goals for these rows.
fn compared(rows: &[Row], clients: usize, hold: u64) -> Vec<Goal> {
    let mut goals = Vec::new();
    if hold > 0 || clients != 8 {
        return goals;
    }
    let row = |kind| rows.iter().find(|row| row.kind == kind && row.awaited);
    let Some(ours) = row(LOCKKEEPER) else { return goals };
    if let Some(fair) = row(FAIR) {
        let times = ours.hand_offs.over(&fair.hand_offs);
        goals.push(Goal::at_least("hand-offs, times Redisson's fair lock", &times, 8.0));
    }
    if let Some(postgres) = row(POSTGRES) {
        let share = ours.hand_offs.over(&postgres.hand_offs);
        goals.push(Goal::at_least("hand-offs, of PostgreSQL's advisory locks", &share, 1.0));
    }
    goals.push(Goal::at_most("hand-off p50, ms", &ours.p50, 0.1));
    goals.push(Goal::at_least("Jain's index", &ours.jain, 0.99));
    goals.push(Goal::at_most("longest wait, ms", &ours.longest, 10.0));
    goals
}
