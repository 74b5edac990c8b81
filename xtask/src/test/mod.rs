//! `cargo xtask test`: installs the missing programs, builds every test program, runs one after the
//! other, and then every example.

mod args;
mod outcome;
mod programs;
mod side_by_side;

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Result;

use self::args::Args;
pub(crate) use self::outcome::{Outcome, Total};
use self::programs::TestProgram;
use crate::budgets::Budgets;
use crate::packages::Program;
use crate::{compare, examples, go, packages};

/// The servers of the live tests, and the tracer that stops a command at a step of a test. The
/// memory and the file store need no server. A Sentinel is `redis-server --sentinel`. The current
/// etcd is built from its Go module.
const SERVERS: &[Program] = &[
    Program { binary: "etcd", package: "etcd-server", variable: Some("LOCKKEEPER_LIVE_ETCD_DEBIAN") },
    Program { binary: "redis-server", package: "redis-server", variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER") },
    Program { binary: "redis-cli", package: "redis-tools", variable: None },
    Program { binary: "strace", package: "strace", variable: None },
];

/// Names another etcd than the one that is built.
const ETCD: &str = "LOCKKEEPER_LIVE_ETCD";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let mut total = Total::default();
    total.time("install", || install(root))?;
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
pub(crate) fn run_tests(root: &Path, which: &[&str], args: &[String], mut total: Total) -> Result<ExitCode> {
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
    let (left_out, programs): (Vec<_>, Vec<_>) = programs.into_iter().partition(|program| program.is_left_out(args));
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

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_own_variables(&mut cargo).current_dir(root);
    cargo
}

/// Removes the variables that cargo has set for xtask from a command. The build script of ring
/// reads some of them: cargo would build ring and its dependents again after each command that the
/// user gives to cargo directly.
pub(crate) fn without_own_variables(command: &mut Command) -> &mut Command {
    let is_own = |name: &str| ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_own)) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn say(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    eprintln!("xtask: {line}");
    line
}

/// The exit code of the command; 1 if a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_none_of_the_variables_that_cargo_has_set_for_us() {
        let cargo = cargo(Path::new("/"));
        for own in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(std::env::var_os(own).is_some(), "{own} is not set: was this program started without cargo?");
            assert!(cargo.get_envs().any(|(name, value)| name == own && value.is_none()), "{own}");
        }
        assert!(!cargo.get_envs().any(|(name, _)| name == "PATH" || name == "CARGO_HOME"));
    }
}
