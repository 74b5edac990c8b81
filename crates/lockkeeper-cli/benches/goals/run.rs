//! `lockkeeper run x -- true` as a whole process, against `flock x true`.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Effort;
use crate::figures::{Rounds, Row, micros};

/// The goal: this many milliseconds more.
const GOAL: f64 = 15.0;

pub(crate) fn measure(effort: Effort) -> Vec<Row> {
    let rounds = effort.choose(100, 2);
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().join("locks.db").display());
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["-S", &store, "run", "x", "--", "true"]);
        took(command)
    };
    let theirs = || {
        let mut command = Command::new("flock");
        command.arg(dir.path().join("x")).arg("true");
        took(command)
    };
    // Makes the files.
    ours();
    theirs();
    let (mut run, mut flock, mut more) = (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        let (a, b) = (ours(), theirs());
        run.add(a);
        flock.add(b);
        more.add(a - b);
    }
    vec![Row {
        what: "`lockkeeper run x -- true`, whole process",
        measured: format!("{} ms", run.spread(1)),
        against: format!("`flock x true`: {} ms", flock.spread(1)),
        result: format!(
            "{} ms more, {:.1} times as long",
            more.spread(1),
            run.median() / flock.median()
        ),
        goal: "at most 15 ms more",
        is_met: more.median() <= GOAL,
    }]
}

/// Milliseconds.
fn took(mut command: Command) -> f64 {
    command.stdin(Stdio::null());
    let start = Instant::now();
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("{command:?}: {e}. Try: apt-get install util-linux"));
    let took = micros(start.elapsed()) / 1e3;
    assert!(status.success(), "{command:?}: {status}");
    took
}
