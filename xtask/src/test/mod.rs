//! `cargo xtask test`: installs the missing programs, builds every test program, runs two at a
//! time, and then every example.

mod args;
mod outcome;
mod programs;
mod side_by_side;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use self::args::Args;
pub(crate) use self::outcome::{Outcome, Total};
use self::programs::TestProgram;
use crate::budgets::Budgets;
use crate::packages::Program;
use crate::{compare, examples, go, packages, valkey};

/// The servers of the live tests, and the tracer that stops a command at a step of a test. The
/// memory and the file store need no server. A Sentinel is `redis-server --sentinel`. The current
/// etcd is built from its Go module.
const SERVERS: &[Program] = &[
    Program {
        binary: "etcd",
        package: "etcd-server",
        variable: Some("LOCKKEEPER_LIVE_ETCD_DEBIAN"),
    },
    Program {
        binary: "redis-server",
        package: "redis-server",
        variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER"),
    },
    Program { binary: "redis-cli", package: "redis-tools", variable: None },
    Program { binary: "strace", package: "strace", variable: None },
];

/// Names another etcd than the one that is built.
const ETCD: &str = "LOCKKEEPER_LIVE_ETCD";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let mut total = Total::default();
    total.time("install", || {
        install(root)?;
        if Args::new(args).runs_matrix() { valkey::install(root) } else { Ok(()) }
    })?;
    run_tests(root, &["--workspace"], args, total)
}

/// Installs and builds the servers of the live tests.
pub(crate) fn install(root: &Path) -> Result<()> {
    packages::install_missing(SERVERS)?;
    if std::env::var_os(ETCD).is_none() {
        go::build(root)?;
    }
    Ok(())
}

/// Runs some of the tests, with all features. Without `args`, and if `which` names whole packages,
/// the documentation tests and the examples run too, and the times are judged. `total` has the
/// steps so far.
pub(crate) fn run_tests(
    root: &Path,
    which: &[&str],
    args: &[String],
    mut total: Total,
) -> Result<ExitCode> {
    let args = Args::new(args);
    // Beside `--workspace` cargo would pass over the packages that the user names.
    let which = if args.name_packages() { &[] } else { which };
    let everything = args.is_empty() && which == ["--workspace"];
    if everything {
        total.judge(Budgets::read(root)?);
    }
    let built = total.time("build", || programs::build(root, which, &args))?;
    let mut programs = choose(built.programs, &args, &mut total);
    if everything {
        programs.push(programs::documentation(root));
    }
    programs.sort_by_key(TestProgram::rank);
    side_by_side::run(programs, &args, &mut total)?;
    if everything {
        total.add("examples", examples::run(root, &built.examples)?);
    }
    if everything && args.all {
        total.add("compare", compare::check(root)?);
    }
    Ok(summary(&total))
}

/// The programs to run. A program that is left out is noted, with the command that runs it.
fn choose(programs: Vec<TestProgram>, args: &Args, total: &mut Total) -> Vec<TestProgram> {
    let (left_out, programs): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.is_left_out(args));
    left_out.iter().for_each(|program| total.leave_out(program.note()));
    programs
}

/// Prints the times, the failures with the commands that repeat them, and the number of tests in
/// the last line.
fn summary(total: &Total) -> ExitCode {
    for line in total.times().into_iter().chain(total.lines()) {
        println!("xtask: {line}");
    }
    if total.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
