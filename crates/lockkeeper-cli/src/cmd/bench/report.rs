//! The results, for people and for programs.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::counted::Calls;
use super::task::{Measured, float};
use crate::args::BenchArgs;
use crate::duration::millis;
use crate::exit::Failure;
use crate::output::{json_line, table};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    seconds: f64,
    interrupted: bool,
    tasks: u32,
    names: u32,
    hold_ms: u64,
    pairs: u64,
    pairs_per_second: f64,
    acquire_us: Option<Times>,
    release_us: Option<Times>,
    /// From the call of the release to the next holder's knowing.
    handoff_us: Option<Times>,
    store_commands_per_pair: Option<Commands>,
    fairness: Option<Fairness>,
}

/// Microseconds.
#[derive(Debug, Serialize)]
struct Times {
    p50: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct Commands {
    total: f64,
    claim: f64,
    withdraw: f64,
    renew: f64,
    other: f64,
    /// Not in the total.
    wait: f64,
}

#[derive(Debug, Serialize)]
struct Fairness {
    jain: f64,
    fewest_pairs: u64,
    most_pairs: u64,
}

impl Times {
    fn of(times: Option<&Histogram<u64>>) -> Option<Self> {
        let times = times.filter(|times| !times.is_empty())?;
        let micros = |nanos: u64| rounded(float(nanos) / 1000.0, 1);
        let at = |quantile| micros(times.value_at_quantile(quantile));
        Some(Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: micros(times.max()) })
    }
}

impl Commands {
    fn of(calls: Calls, pairs: u64) -> Option<Self> {
        let each = |count: u64| rounded(float(count) / float(pairs), 3);
        (pairs > 0).then(|| Self {
            total: each(calls.commands()),
            claim: each(calls.claims),
            withdraw: each(calls.withdrawals),
            renew: each(calls.renewals),
            other: each(calls.others),
            wait: each(calls.waits),
        })
    }
}

impl Report {
    pub(super) fn new(
        args: &BenchArgs,
        measured: &Measured,
        calls: Calls,
        took: Duration,
        interrupted: bool,
    ) -> Self {
        let pairs = measured.total();
        let fairness = measured.fairness().map(|jain| Fairness {
            jain: rounded(jain, 3),
            fewest_pairs: measured.pairs.iter().min().copied().unwrap_or(0),
            most_pairs: measured.pairs.iter().max().copied().unwrap_or(0),
        });
        Self {
            seconds: rounded(took.as_secs_f64(), 3),
            interrupted,
            tasks: args.tasks,
            names: args.names,
            hold_ms: millis(args.hold),
            pairs,
            pairs_per_second: rounded(float(pairs) / took.as_secs_f64().max(1e-9), 1),
            acquire_us: Times::of(measured.acquire.as_ref()),
            release_us: Times::of(measured.release.as_ref()),
            handoff_us: Times::of(measured.handoff.as_ref()),
            store_commands_per_pair: Commands::of(calls, pairs),
            fairness,
        }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        json_line(self)
    }

    pub(super) fn text(&self) -> String {
        let row = |key: &str, value: String| vec![key.to_owned(), value];
        let locks = if self.names == 1 { "lock" } else { "locks" };
        let early = if self.interrupted { ", interrupted" } else { "" };
        let mut rows = vec![
            row(
                "measured",
                format!(
                    "{:.1} s{early}: {} tasks, {} {locks}",
                    self.seconds, self.tasks, self.names
                ),
            ),
            row("pairs", format!("{}, {:.0} per second", self.pairs, self.pairs_per_second)),
        ];
        for (what, times) in [
            ("acquire", &self.acquire_us),
            ("release", &self.release_us),
            ("hand-off", &self.handoff_us),
        ] {
            rows.push(row(what, times.as_ref().map_or_else(none, quantiles)));
        }
        rows.push(row(
            "commands",
            self.store_commands_per_pair.as_ref().map_or_else(none, per_pair),
        ));
        rows.push(row("fairness", self.fairness.as_ref().map_or_else(none, shares)));
        table(&rows)
    }
}

/// A dash: there are no results.
fn none() -> String {
    "-".to_owned()
}

fn per_pair(commands: &Commands) -> String {
    let Commands { total, claim, withdraw, renew, other, wait } = commands;
    format!(
        "{total:.2} per pair (claim {claim:.2}, withdraw {withdraw:.2}, renew {renew:.2}, other {other:.2}); {wait:.2} waits"
    )
}

fn shares(fairness: &Fairness) -> String {
    let Fairness { jain, fewest_pairs, most_pairs } = fairness;
    format!("{jain:.3} (a task made {fewest_pairs} to {most_pairs} pairs)")
}

fn quantiles(times: &Times) -> String {
    let Times { p50, p99, p999, max } = times;
    let [p50, p99, p999, max] = [p50, p99, p999, max].map(|micros| shown(*micros));
    format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
}

/// Microseconds in a readable form, with about three digits.
fn shown(micros: f64) -> String {
    match micros {
        m if m < 1000.0 => format!("{m:.1} µs"),
        m if m < 1_000_000.0 => format!("{:.2} ms", m / 1e3),
        m => format!("{:.2} s", m / 1e6),
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_their_unit() {
        for (micros, text) in
            [(0.4, "0.4 µs"), (999.0, "999.0 µs"), (1_234.0, "1.23 ms"), (2_500_000.0, "2.50 s")]
        {
            assert_eq!(shown(micros), text);
        }
    }

    #[test]
    fn nothing_measured_is_nothing_claimed() {
        let args = BenchArgs { seconds: Duration::ZERO, tasks: 2, names: 1, hold: Duration::ZERO };
        let none = Calls { claims: 0, withdrawals: 0, renewals: 0, others: 0, waits: 0 };
        let report = Report::new(&args, &Measured::of(2), none, Duration::ZERO, true);
        let json = report.json().unwrap();
        assert!(
            json.contains("\"pairs\":0,\"pairs_per_second\":0.0,\"acquire_us\":null"),
            "{json}"
        );
        assert!(report.text().contains("interrupted"), "{}", report.text());
    }
}
