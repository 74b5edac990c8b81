//! `cargo xtask ci`: all that a change has to pass, for `.ci/run`.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Name and command, in the order of what fails fastest.
const STEPS: [(&str, &[&str]); 7] = [
    ("formatting", &["cargo", "fmt", "--all", "--check"]),
    ("tidy", &["cargo", "xtask", "tidy"]),
    (
        "clippy",
        &["cargo", "clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"],
    ),
    (
        "clippy without features",
        &["cargo", "clippy", "-p", "lockkeeper", "--no-default-features", "--locked", "--", "-D", "warnings"],
    ),
    (
        "docs",
        &["env", "RUSTDOCFLAGS=-D warnings", "cargo", "doc", "--workspace", "--no-deps", "--all-features", "--locked"],
    ),
    ("test", &["cargo", "xtask", "test"]),
    ("interop", &["cargo", "xtask", "interop"]),
];

/// The components of the toolchain that the steps need.
const COMPONENTS: [&str; 2] = ["fmt", "clippy"];

/// Does every step, whatever becomes of the others, and says at the end how long each took and what failed.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    COMPONENTS.into_iter().try_for_each(need)?;
    let mut report = Report::default();
    for (name, words) in STEPS {
        println!("ci: {name}: {}", quoted(words));
        let start = Instant::now();
        let status = command(root, words).status().with_context(|| format!("cannot run {}", words[0]))?;
        report.add(name, words, status, start.elapsed());
    }
    for line in report.lines() {
        println!("ci: {line}");
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn need(component: &str) -> Result<()> {
    let mut version = Command::new("cargo");
    let is_there = version.args([component, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        bail!("cargo {component} is missing. Try: rustup component add rustfmt clippy");
    }
    Ok(())
}

fn command(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root);
    command
}

/// As a shell takes it.
fn quoted(words: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./".contains(c);
    let word = |word: &&str| if word.chars().all(is_plain) { (*word).to_owned() } else { format!("'{word}'") };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What became of the steps.
#[derive(Debug, Default)]
struct Report {
    took: Vec<(String, Duration)>,
    failures: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &str, words: &[&str], status: ExitStatus, took: Duration) {
        if !status.success() {
            self.failures.push(format!("{name} failed ({status}). To repeat it: {}", quoted(words)));
        }
        self.took.push((name.to_owned(), took));
    }

    /// The times, what failed, and in the last line whether anything did.
    fn lines(&self) -> Vec<String> {
        let line = |(name, took): &(String, Duration)| format!("{:>8.1} s  {name}", took.as_secs_f64());
        let mut lines: Vec<_> = self.took.iter().map(line).collect();
        lines.extend(self.failures.iter().cloned());
        let all: Duration = self.took.iter().map(|(_, took)| *took).sum();
        let end = if self.failures.is_empty() { "all passed" } else { "not all passed" };
        lines.push(format!("{end}, in {} s", all.as_secs()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &[&str] = &["env", "RUSTDOCFLAGS=-D warnings", "cargo", "doc"];

    fn status(code: &str) -> ExitStatus {
        Command::new("sh").args(["-c", code]).status().unwrap()
    }

    #[test]
    fn a_command_is_quoted_so_that_it_can_be_typed_again() {
        assert_eq!(quoted(DOCS), "env 'RUSTDOCFLAGS=-D warnings' cargo doc");
        for (name, words) in STEPS {
            assert!(words.iter().all(|word| !word.contains('\'')), "{name}");
        }
    }

    #[test]
    fn every_failure_is_listed_after_the_times_with_the_line_that_repeats_it() {
        let mut report = Report::default();
        report.add("docs", DOCS, status("exit 101"), Duration::from_secs(7));
        report.add("tidy", &["cargo", "xtask", "tidy"], status("exit 0"), Duration::from_secs(1));
        report.add("test", &["cargo", "xtask", "test"], status("exit 0"), Duration::from_secs(20));
        assert_eq!(
            report.lines(),
            [
                "     7.0 s  docs",
                "     1.0 s  tidy",
                "    20.0 s  test",
                "docs failed (exit status: 101). To repeat it: env 'RUSTDOCFLAGS=-D warnings' cargo doc",
                "not all passed, in 28 s",
            ]
        );
    }

    #[test]
    fn where_nothing_failed_the_last_line_says_so() {
        let mut report = Report::default();
        report.add("docs", DOCS, status("exit 0"), Duration::from_secs(7));
        assert_eq!(report.lines()[1], "all passed, in 7 s");
        assert!(report.failures.is_empty());
    }
}
