//! Runs so many test programs at a time, and prints the output of each as a whole when it has ended.

use std::collections::VecDeque;
use std::io::{Write, stdout};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::args::Args;
use super::outcome::{Outcome, Total};
use super::programs::TestProgram;
use crate::secrets;

/// How many programs run at a time. With four of them Redis and etcd left tests without an answer for seconds. With two of
/// them on two cores about one test of 9000 met a pause that it did not expect, and five minutes were saved.
const AT_ONCE: usize = 1;

/// How often a program that is still running says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// How many tests of a program run at a time, if the user sets it.
const THREADS: &str = "RUST_TEST_THREADS";

/// Tells the tests that they may take long.
const ALL: &str = "LOCKKEEPER_ALL";

/// Runs all of them, whatever becomes of one, in this order.
pub(super) fn run(programs: Vec<TestProgram>, args: &Args, total: &mut Total) -> Result<()> {
    let (queue, total) = (Mutex::new(VecDeque::from(programs)), Mutex::new(total));
    let worker = || -> Result<()> {
        loop {
            let Some(mut program) = take(&queue) else { return Ok(()) };
            let outcome = run_one(&mut program, args).with_context(|| program.name.clone())?;
            total.lock().unwrap_or_else(PoisonError::into_inner).add(&program.name, outcome);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn take(queue: &Mutex<VecDeque<TestProgram>>) -> Option<TestProgram> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// What a program has printed, and what that says.
#[derive(Default)]
struct Seen {
    shown: Vec<u8>,
    last: String,
    outcome: Outcome,
    told: Option<Instant>,
}

fn run_one(program: &mut TestProgram, args: &Args) -> Result<Outcome> {
    let (name, threads, start) = (program.name.clone(), program.kind.threads(), Instant::now());
    eprintln!("xtask: {name} begins, {threads} tests at a time");
    let command = program.command(&args.program).stdin(Stdio::null());
    if args.all {
        command.env(ALL, "1");
    }
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, threads.to_string());
    }
    let seen = Mutex::new(Seen::default());
    let see = |line: &str, is_to_be_shown: bool| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.outcome.read(line);
        if is_to_be_shown {
            seen.shown.extend_from_slice(line.as_bytes());
            seen.shown.push(b'\n');
            line.clone_into(&mut seen.last);
        }
    };
    let look = || {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.told.unwrap_or(start).elapsed() >= SIGN_OF_LIFE {
            seen.told = Some(Instant::now());
            eprintln!("xtask: {name} runs for {} s; its last line: {}", start.elapsed().as_secs(), seen.last);
        }
    };
    let (status, secrets) = secrets::watch(command, None, &see, &look)?;
    let mut seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    (seen.outcome.secrets, seen.outcome.took) = (secrets, start.elapsed());
    if let Some(status) = status {
        let variable = if args.all { format!("{ALL}=1 ") } else { String::new() };
        seen.outcome.end(&name, status, |tests| variable.clone() + &program.to_repeat(tests));
    }
    print(&name, &seen);
    Ok(seen.outcome)
}

/// As a whole, so that nothing of another program comes between.
fn print(name: &str, seen: &Seen) {
    let outcome = &seen.outcome;
    let mut out = stdout().lock();
    // Nobody is left to whom a failure could be told.
    let _ = writeln!(out, "\n==== {name} ====");
    let _ = out.write_all(&seen.shown);
    let _ = writeln!(
        out,
        "==== {name}: {} passed, {} failed, {:.1} s ====",
        outcome.passed,
        outcome.failed,
        outcome.took.as_secs_f64()
    );
    if let Some(complaint) = &outcome.complaint {
        let _ = writeln!(out, "xtask: {complaint}");
    }
    let _ = out.flush();
}
