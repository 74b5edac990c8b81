//! The goals of lockkeeper, measured: each goal and its yardstick run in turn, in one run.
//!
//! `cargo bench -p lockkeeper-cli --bench goals [-- engine file handoff run]` prints a table.
//! Without `--bench`, as under `cargo test`, each goal is measured for a moment, and the run
//! asserts only what must hold on any machine.
#![allow(clippy::unwrap_used, reason = "a failing measurement panics")]

#[path = "../../../lockkeeper/benches/support/bare.rs"]
mod bare;
mod engine;
mod figures;
mod file;
mod handoff;
mod machine;
mod run;
mod worker;

use std::process::ExitCode;

use figures::Row;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Enough for figures.
    Full,
    /// Enough for a check that the measurement works.
    Moment,
}

impl Effort {
    fn choose<T>(self, full: T, moment: T) -> T {
        if self == Self::Full { full } else { moment }
    }
}

type Goal = (&'static str, fn(Effort) -> Vec<Row>);

const GOALS: [Goal; 4] = [
    ("engine", engine::measure),
    ("file", file::measure),
    ("handoff", handoff::measure),
    ("run", run::measure),
];

fn main() -> ExitCode {
    if worker::is_one() {
        worker::work();
        return ExitCode::SUCCESS;
    }
    let (flags, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with('-'));
    let is_bench = flags.iter().any(|flag| flag == "--bench");
    if let Some(unknown) =
        wanted.iter().find(|name| is_bench && !GOALS.iter().any(|(goal, _)| goal == name))
    {
        eprintln!(
            "goals: there is no goal {unknown:?}. Try: {}",
            GOALS.map(|(goal, _)| goal).join(", ")
        );
        return ExitCode::FAILURE;
    }
    if flags.iter().any(|flag| flag == "--list") {
        return ExitCode::SUCCESS;
    }
    let goals = GOALS
        .into_iter()
        .filter(|(goal, _)| wanted.is_empty() || wanted.iter().any(|name| name == goal));
    if is_bench {
        print_all(goals)
    } else {
        check(goals)
    }
    ExitCode::SUCCESS
}

fn print_all(goals: impl Iterator<Item = Goal>) {
    let awake = machine::keep_awake();
    println!("{}\n", machine::description(awake.is_some()));
    println!("{}", Row::HEAD);
    for (_, measure) in goals {
        for row in measure(Effort::Full) {
            println!("{row}");
        }
    }
}

fn check(goals: impl Iterator<Item = Goal>) {
    for (goal, measure) in goals {
        let rows = measure(Effort::Moment);
        assert!(!rows.is_empty());
        println!("goal {goal} can be measured ... ok");
    }
}
