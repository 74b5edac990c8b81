//! The part `crowd`, of many clients on one lock: how often the lock changes hands, how fast, and
//! how fairly.

use anyhow::Result;
use serde_json::json;

use super::alone::AlonePart;
use super::{Bench, Goal, Kind, Rounds, Seen, Servers, Spans, Spec, Turns, goals};
use crate::clock::{MILLI, SECOND};

/// The part on one kind of store.
#[derive(Debug)]
pub struct CrowdPart {
    /// The clients in the order of their rows. The second row of a kind does not wait for the
    /// releases.
    pub kinds: &'static [Kind],
    /// Clients that ask more often than by default: only the first setting of a long run has them.
    pub often: &'static [Kind],
    /// The part with the ceiling, which is measured right before and after each client, if pairs of
    /// the ceiling compare with hand-offs.
    pub raw: Option<&'static AlonePart>,
    /// The client with which the table compares the others, and its name in the table.
    pub peer: (Kind, &'static str),
    /// The requests that the server counts, in one word.
    pub requests: &'static str,
    /// The milliseconds of the first run of a client: whether the run is quick, and the setting. 0:
    /// the clients only start.
    pub first: fn(Kind, bool, Crowd) -> u64,
    /// The measured times in milliseconds: of a quick run, and of a long run.
    pub measured: [u64; 2],
    /// The goals for the rows.
    pub goals: fn(&[CrowdRow], Crowd) -> Vec<Goal>,
}

/// A setting: one table.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The number of clients.
    pub clients: usize,
    /// For how long each client holds the lock, in nanoseconds.
    pub hold: u64,
}

/// A line of the table.
#[derive(Debug)]
pub struct CrowdRow {
    /// The measured client.
    pub kind: Kind,
    /// Whether a client waits for the answer to its release.
    pub awaited: bool,
    /// Hand-offs per second.
    pub hand_offs: Rounds,
    share: Rounds,
    /// Hand-offs for each pair of the ceiling.
    of_raw: Rounds,
    /// The times of a hand-off, in milliseconds: the median, and the 99th percentile.
    pub latency: [Rounds; 2],
    wait: [Rounds; 2],
    /// The longest wait, in milliseconds.
    pub longest: Rounds,
    /// Jain's index.
    pub jain: Rounds,
    requests: Rounds,
    server: Rounds,
    client: Rounds,
    server_load: Rounds,
    stuck: u64,
    overlaps: u64,
}

impl CrowdPart {
    /// Measures the settings in turn, prints a table for each, and judges the goals. `on` names the
    /// server if the part runs on several servers.
    ///
    /// # Errors
    ///
    /// The ceiling cannot be measured, or the report not be written.
    pub fn run<S: Servers>(
        &self,
        bench: &mut Bench<S>,
        crowds: &[Crowd],
        on: Option<&str>,
    ) -> Result<()> {
        let mut tables: Vec<_> =
            crowds.iter().map(|crowd| (*crowd, self.rows(bench, *crowd))).collect();
        for (crowd, rows) in &tables {
            rows.iter().for_each(|row| self.run_first(bench, row, *crowd));
        }
        let rounds = if bench.is_quick { 1 } else { 3 };
        for round in 0..rounds {
            for (crowd, rows) in &mut tables {
                self.measure(
                    bench,
                    rows,
                    *crowd,
                    &json!({"part": "crowd", "on": on, "round": round}),
                )?;
            }
        }
        for (crowd, rows) in &mut tables {
            rows.retain(|row| bench.has(row.kind));
            self.print(rows, *crowd, on);
            goals(&(self.goals)(rows, *crowd));
        }
        Ok(())
    }

    fn rows<S: Servers>(&self, bench: &Bench<S>, crowd: Crowd) -> Vec<CrowdRow> {
        let has_often = !bench.is_quick && crowd.clients == 8 && crowd.hold == 0;
        let mut rows: Vec<CrowdRow> = Vec::new();
        for &kind in self.kinds.iter().filter(|kind| bench.has(**kind)) {
            if has_often || !self.often.contains(&kind) {
                let is_second = rows.iter().any(|row| row.kind == kind);
                rows.push(CrowdRow::new(kind, !is_second));
            }
        }
        rows
    }

    /// A JVM has to compile first.
    fn run_first<S: Servers>(&self, bench: &mut Bench<S>, row: &CrowdRow, crowd: Crowd) {
        let first = (self.first)(row.kind, bench.is_quick, crowd);
        let spec = Spec { measured: first * MILLI, ..self.spec(row, crowd, bench.is_quick) };
        bench.attempt(row.kind, |bench| match first {
            0 => bench.fleet(row.kind, crowd.clients).map(|_| ()),
            _ => bench.measure(&spec).map(|_| ()),
        });
    }

    /// Measures each client once. `line` has the beginning of each line of the report.
    fn measure<S: Servers>(
        &self,
        bench: &mut Bench<S>,
        rows: &mut [CrowdRow],
        crowd: Crowd,
        line: &serde_json::Value,
    ) -> Result<()> {
        let raw = |bench: &mut Bench<S>| self.raw.map(|part| part.raw(bench, 1)).transpose();
        let mut before = raw(bench)?;
        for row in rows {
            let spec = self.spec(row, crowd, bench.is_quick);
            let Some(seen) = bench.attempt(row.kind, |bench| bench.measure(&spec)) else {
                continue;
            };
            let after = raw(bench)?;
            row.add(&seen, crowd, before.zip(after).map(|(before, after)| before.midpoint(after)));
            before = after;
            let mut line = line.clone();
            let figures = self.figures(row, crowd, seen.seconds());
            if let (Some(line), serde_json::Value::Object(figures)) =
                (line.as_object_mut(), figures)
            {
                line.extend(figures);
            }
            bench.report.add(&line)?;
        }
        Ok(())
    }

    fn spec(&self, row: &CrowdRow, crowd: Crowd, is_quick: bool) -> Spec {
        let [quick, long] = self.measured;
        let (warm, measured) = if is_quick { (200, quick) } else { (300, long) };
        let (Crowd { clients, hold }, &CrowdRow { kind, awaited, .. }) = (crowd, row);
        let (warm, measured) = (warm * MILLI, measured * MILLI);
        Spec { clients, awaited, hold, own: false, warm, measured, ..Spec::of(kind) }
    }

    /// The figures of the last measurement.
    fn figures(&self, row: &CrowdRow, crowd: Crowd, seconds: f64) -> serde_json::Value {
        json!({
            "kind": row.kind.name, "clients": crowd.clients, "hold_ns": crowd.hold,
            "awaited": row.awaited, "seconds": seconds,
            "hand_offs_per_second": row.hand_offs.last(), "share_of_grants": row.share.last(),
            "of_raw": row.of_raw.last(),
            "p50_ms": row.latency[0].last(), "p99_ms": row.latency[1].last(),
            "wait_p50_ms": row.wait[0].last(), "wait_p99_ms": row.wait[1].last(),
            "longest_wait_ms": row.longest.last(), "jain": row.jain.last(),
            (format!("{}_per_hand_off", self.requests)): row.requests.last(),
            "server_us_per_hand_off": row.server.last(),
            "client_us_per_hand_off": row.client.last(),
            "server_percent": row.server_load.last(),
            "stuck_so_far": row.stuck, "overlaps_so_far": row.overlaps,
        })
    }

    fn print(&self, rows: &[CrowdRow], crowd: Crowd, on: Option<&str>) {
        let on = on.map_or(String::new(), |server| format!(", on {server}"));
        let Crowd { clients, hold } = crowd;
        println!("### {clients} clients on one lock, held for {} ms{on}\n", hold / MILLI);
        let peer = rows.iter().find(|row| row.kind == self.peer.0);
        for (at, row) in rows.iter().enumerate() {
            let (heads, cells): (Vec<_>, Vec<_>) = self.columns(row, peer).into_iter().unzip();
            if at == 0 {
                println!("| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
            }
            println!("| {} |", cells.join(" | "));
        }
        println!();
    }

    /// The columns of the table: each heading with the cell of this row.
    fn columns(&self, row: &CrowdRow, peer: Option<&CrowdRow>) -> Vec<(String, String)> {
        let how = if row.awaited { "" } else { ", guard dropped" };
        let times = peer.map(|peer| row.hand_offs.over(&peer.hand_offs).spread(2));
        let [latency, wait] = [&row.latency, &row.wait]
            .map(|[p50, p99]| format!("{:.2} / {:.2}", p50.median(), p99.median()));
        let [times_peer, requests_each] =
            [format!("× {}", self.peer.1), format!("{} a hand-off", self.requests)];
        // The store counts no requests of some clients.
        let requests = Some(row.requests.median()).filter(|requests| *requests > 0.0);
        let columns = [
            ("client", format!("{}{how}", row.kind.label)),
            ("hand-offs/s", row.hand_offs.spread(0)),
            ("share of grants", format!("{:.1} %", row.share.median() * 100.0)),
            ("of raw's pairs/s", row.of_raw.spread(2)),
            (&*times_peer, times.unwrap_or_default()),
            ("hand-off p50 / p99 ms", latency),
            ("wait p50 / p99 ms", wait),
            ("longest wait ms", format!("{:.1}", row.longest.max())),
            ("Jain", format!("{:.3}", row.jain.median())),
            (
                &*requests_each,
                requests.map(|requests| format!("{requests:.1}")).unwrap_or_default(),
            ),
            (
                "server, clients: µs a hand-off",
                format!("{:.0}, {:.0}", row.server.median(), row.client.median()),
            ),
            ("server, % of a core", format!("{:.0}", row.server_load.median())),
            ("stuck, overlaps", format!("{}, {}", row.stuck, row.overlaps)),
        ];
        let has_raw = self.raw.is_some();
        let shown = columns.into_iter().filter(|(head, _)| has_raw || *head != "of raw's pairs/s");
        shown.map(|(head, cell)| (head.to_owned(), cell)).collect()
    }
}

impl CrowdRow {
    fn new(kind: Kind, awaited: bool) -> Self {
        let [hand_offs, share, of_raw, longest, jain] = [const { Rounds::none() }; 5];
        let [requests, server, client, server_load] = [const { Rounds::none() }; 4];
        let [latency, wait] = [const { [const { Rounds::none() }; 2] }; 2];
        let (stuck, overlaps) = (0, 0);
        #[rustfmt::skip]
        let row = Self {
            kind, awaited, hand_offs, share, of_raw, latency, wait, longest, jain, requests, server,
            client, server_load, stuck, overlaps,
        };
        row
    }

    fn add(&mut self, seen: &Seen, crowd: Crowd, raw: Option<f64>) {
        let turns = Turns::of(&seen.cycles, crowd.clients, seen.start, seen.end, Spec::TIME_LIMIT);
        let wait = Spans::of(seen.within().map(|cycle| cycle.granted - cycle.asked));
        let hand_offs = turns.hand_offs as f64;
        self.hand_offs.add(hand_offs / seen.seconds());
        if let Some(raw) = raw {
            self.of_raw.add(hand_offs / seen.seconds() / raw);
        }
        self.share.add(hand_offs / turns.grants as f64);
        for (at, share) in [0.5, 0.99].into_iter().enumerate() {
            self.latency[at].add(turns.latency.quantile(share) / 1e3);
            self.wait[at].add(wait.quantile(share) / 1e3);
        }
        self.longest.add(turns.longest_wait / 1e3);
        self.jain.add(turns.jain);
        self.requests.add(seen.server.commands as f64 / hand_offs);
        self.server.add(seen.server.cpu as f64 / 1e3 / hand_offs);
        self.client.add(seen.client_cpu as f64 / 1e3 / hand_offs);
        self.server_load.add(seen.server.cpu as f64 / SECOND as f64 / seen.seconds() * 100.0);
        self.stuck += turns.stuck;
        self.overlaps += turns.overlaps;
    }

    /// The row of a client that waits for the answers to its releases.
    pub fn of(rows: &[Self], kind: Kind) -> Option<&Self> {
        rows.iter().find(|row| row.kind == kind && row.awaited)
    }
}
