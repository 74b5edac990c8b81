//! Runs the programs that wait for servers, disks and processes one after the other, and beside
//! them the programs that compute, one after the other. Prints the output of each program as a
//! whole after its end.
//!
//! All tests pass beside four busy loops, so a program that computes disturbs none. Two programs
//! that both sync a disk or start many servers wait for each other, for seconds.

use std::io::{Write, stdout};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::args::Args;
use super::outcome::{Outcome, Total};
use super::programs::TestProgram;
use crate::cpu::Cpu;
use crate::secrets;

/// How often a program that is still running says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// The user's variable for the number of tests that a program runs at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Has the number for a bare `cargo test`, which cargo also gives to xtask. The user has not chosen
/// this number.
const CARGO_CONFIG: &str = include_str!("../../../.cargo/config.toml");

/// Allows the tests to take long.
const ALL: &str = "LOCKKEEPER_ALL";

/// Runs all programs, even after a failure.
pub(super) fn run(programs: Vec<TestProgram>, args: &Args, total: &mut Total) -> Result<()> {
    let (computing, waiting): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(TestProgram::computes);
    let total = Mutex::new(total);
    let run_lane = &|lane: Vec<TestProgram>| -> Result<()> {
        for mut program in lane {
            let outcome = run_one(&mut program, args).with_context(|| program.name.clone())?;
            total.lock().unwrap_or_else(PoisonError::into_inner).add(&program.name, outcome);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes = [waiting, computing].map(|lane| scope.spawn(move || run_lane(lane)));
        lanes.into_iter().try_for_each(|lane| match lane.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// The output of a program, and the results in it.
#[derive(Default)]
struct Seen {
    shown: Vec<u8>,
    last: String,
    outcome: Outcome,
    last_sign: Option<Instant>,
    cpu: Cpu,
}

fn run_one(program: &mut TestProgram, args: &Args) -> Result<Outcome> {
    let (name, start) = (program.name.clone(), Instant::now());
    let threads =
        chosen(std::env::var(THREADS).ok()).unwrap_or_else(|| program.kind.threads().to_string());
    eprintln!("xtask: {name} begins, {threads} tests at a time");
    let command = program.command(&args.program).stdin(Stdio::null()).env(THREADS, threads);
    if args.all {
        command.env(ALL, "1");
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
    let look = |id| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.cpu.look(id);
        if seen.last_sign.unwrap_or(start).elapsed() >= SIGN_OF_LIFE {
            seen.last_sign = Some(Instant::now());
            eprintln!(
                "xtask: {name} runs for {} s; its last line: {}",
                start.elapsed().as_secs(),
                seen.last
            );
        }
    };
    let (status, secrets) = secrets::watch(command, None, &see, &look)?;
    let mut seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    (seen.outcome.secrets, seen.outcome.took, seen.outcome.cpu) =
        (secrets, start.elapsed(), seen.cpu.time());
    if let Some(status) = status {
        let variable = if args.all { format!("{ALL}=1 ") } else { String::new() };
        seen.outcome.end(&name, status, |tests| variable.clone() + &program.to_repeat(tests));
    }
    print(&name, &seen);
    Ok(seen.outcome)
}

/// The number of tests at a time that the user has chosen.
fn chosen(threads: Option<String>) -> Option<String> {
    threads.filter(|threads| !CARGO_CONFIG.contains(&format!("\n{THREADS} = \"{threads}\"\n")))
}

/// Prints the output as a whole, so that no output of another program comes between.
fn print(name: &str, seen: &Seen) {
    let outcome = &seen.outcome;
    let mut out = stdout().lock();
    // A closed stdout leaves no way to report a failure.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_bare_cargo_test_is_no_choice_of_the_user() {
        let of_cargo = CARGO_CONFIG.split_once(&format!("\n{THREADS} = \"")).unwrap().1;
        let of_cargo = of_cargo.split_once('"').unwrap().0;
        assert_eq!(chosen(Some(of_cargo.to_owned())), None);
        assert_eq!(chosen(Some(format!("1{of_cargo}"))), Some(format!("1{of_cargo}")));
        assert_eq!(chosen(None), None);
    }
}
