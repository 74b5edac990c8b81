//! `cargo xtask test`: installs what is missing, then runs every test, and every example.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Result, bail};

use crate::packages::Program;
use crate::{examples, go, packages, secrets};

/// What the live tests start. The memory and the file store need no server. A Sentinel is `redis-server --sentinel`.
/// The current etcd is built from its Go module.
const SERVERS: &[Program] = &[
    Program { binary: "etcd", package: "etcd-server", variable: Some("LOCKKEEPER_LIVE_ETCD_DEBIAN") },
    Program { binary: "redis-server", package: "redis-server", variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER") },
    Program { binary: "redis-cli", package: "redis-tools", variable: None },
];

/// Names another etcd than the one that is built.
const ETCD: &str = "LOCKKEEPER_LIVE_ETCD";

/// How many tests run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    packages::install_missing(SERVERS)?;
    if std::env::var_os(ETCD).is_none() {
        go::build(root)?;
    }
    let ended = run_tests(root, &["--workspace"], args)?;
    // Who asks for some of the tests does not ask for the examples.
    if ended == ExitCode::SUCCESS && args.is_empty() {
        none(examples::run(root)?)?;
    }
    Ok(ended)
}

/// Runs some of the tests, with all features.
pub(crate) fn run_tests(root: &Path, which: &[&str], args: &[String]) -> Result<ExitCode> {
    let mut test = cargo(root);
    test.arg("test").args(which).args(["--all-features", "--locked"]).args(with_output(args));
    if std::env::var_os(THREADS).is_none() {
        test.env(THREADS, threads().to_string());
    }
    say(&test);
    let (status, secrets) = secrets::watch(&mut test, None)?;
    none(secrets)?;
    Ok(status.map_or(ExitCode::FAILURE, exit_code))
}

/// No line may show a secret.
fn none(secrets: usize) -> Result<()> {
    if secrets > 0 {
        bail!("{secrets} lines of the output show a password: see \"a secret was printed\" above");
    }
    Ok(())
}

/// Most tests wait for something most of the time, so that twice as many of them as there are processors keep these busy.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(2, usize::from)
}

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Shows what passing tests print too, so that it can be looked through.
fn with_output(args: &[String]) -> Vec<String> {
    let mut args = args.to_vec();
    if !args.iter().any(|arg| arg == "--") {
        args.push("--".to_owned());
    }
    args.push("--show-output".to_owned());
    args
}

pub(crate) fn say(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    eprintln!("xtask: {line}");
    line
}

/// The code of the command; 1 when a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_passing_tests_is_asked_for() {
        let args = |args: &[&str]| with_output(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).join(" ");
        assert_eq!(args(&[]), "-- --show-output");
        assert_eq!(args(&["--lib", "--", "x"]), "--lib -- x --show-output");
    }
}
