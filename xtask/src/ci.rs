//! `cargo xtask ci`: all that a change has to pass, for `.ci/run`.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::budgets::{self, Budgets};
use crate::commands::without_own_variables;

/// The name of each step, and its line for a shell. Steps that fail fast come first.
const STEPS: [(&str, &str); 7] = [
    ("formatting", "cargo fmt --all --check"),
    ("tidy", "cargo xtask tidy"),
    // The same as --all-targets, and the test programs that cargo does not run by default.
    (
        "clippy",
        "cargo clippy --workspace --lib --bins --tests --benches --examples --test '*' --all-features --locked -- \
         -D warnings",
    ),
    (
        "clippy without features",
        "cargo clippy -p lockkeeper --no-default-features --locked -- -D warnings",
    ),
    ("docs", "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features --locked"),
    ("test", "cargo xtask test"),
    ("interop", "cargo xtask interop"),
];

/// The components of the toolchain that the steps need.
const COMPONENTS: [&str; 2] = ["fmt", "clippy"];

/// Runs every step, even after a failure. Prints the time of each step and the failures at the end.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    COMPONENTS.into_iter().try_for_each(need)?;
    let budgets = Budgets::read(root)?;
    has_all(&budgets, &STEPS)?;
    let mut report = Report::default();
    for (name, line) in STEPS {
        println!("ci: {name}: {line}");
        let start = Instant::now();
        let status = command(root, line).status().context("cannot run sh")?;
        report.add(name, line, status, start.elapsed(), &budgets);
    }
    for line in report.lines(&budgets) {
        println!("ci: {line}");
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn need(component: &str) -> Result<()> {
    let mut version = Command::new("cargo");
    let is_there =
        version.args([component, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        bail!("cargo {component} is missing. Try: rustup component add rustfmt clippy");
    }
    Ok(())
}

/// Before any step: the missing line is reported at once, and not after half an hour.
fn has_all(budgets: &Budgets, steps: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<_> =
        steps.iter().map(|(name, _)| *name).filter(|name| budgets.of(name).is_none()).collect();
    if !missing.is_empty() {
        bail!(
            "{} has no budget for: {}. Try: add a line with the name and its seconds",
            budgets::FILE,
            missing.join(", ")
        );
    }
    Ok(())
}

fn command(root: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    without_own_variables(&mut command).args(["-c", line]).current_dir(root);
    command
}

/// The outcome of the steps.
#[derive(Debug, Default)]
struct Report {
    took: Vec<(String, Duration)>,
    failures: Vec<String>,
}

impl Report {
    fn add(
        &mut self,
        name: &str,
        line: &str,
        status: ExitStatus,
        took: Duration,
        budgets: &Budgets,
    ) {
        if !status.success() {
            self.failures.push(format!("{name} failed ({status}). To repeat it: {line}"));
        }
        self.failures.extend(budgets.complaint(name, took));
        self.took.push((name.to_owned(), took));
    }

    /// The times, the failures, and in the last line whether any step failed.
    fn lines(&self, budgets: &Budgets) -> Vec<String> {
        let mut lines = budgets::table(&self.took, budgets);
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

    const DOCS: &str = "RUSTDOCFLAGS='-D warnings' cargo doc";

    fn status(code: &str) -> ExitStatus {
        Command::new("sh").args(["-c", code]).status().unwrap()
    }

    #[test]
    fn every_step_has_a_budget_and_one_without_is_an_error() {
        has_all(&Budgets::read(&crate::root().unwrap()).unwrap(), &STEPS).unwrap();
        let budgets = Budgets::parse("docs 60").unwrap();
        has_all(&budgets, &[("docs", DOCS)]).unwrap();
        let error = has_all(&budgets, &[("docs", DOCS), ("new", DOCS), ("newer", DOCS)])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(".ci/budgets has no budget for: new, newer. Try: "), "{error}");
    }

    #[test]
    fn a_step_is_a_shell_line_in_the_root_of_the_repository() {
        let root = crate::root().unwrap();
        let step = |line: &str| command(&root, line).status().unwrap().code();
        assert_eq!(
            step(
                "FLAGS='-D warnings' sh -c 'test \"$FLAGS\" = \"-D warnings\" && test -f .ci/budgets'"
            ),
            Some(0)
        );
        assert_eq!(step("test -z \"$CARGO_PKG_NAME\" && exit 3"), Some(3));
    }

    #[test]
    fn every_failure_is_listed_after_the_times_with_its_command() {
        let (budgets, mut report) =
            (Budgets::parse("docs 60\ntest 10\ntidy 10").unwrap(), Report::default());
        report.add("docs", DOCS, status("exit 101"), Duration::from_secs(7), &budgets);
        report.add("tidy", "cargo xtask tidy", status("exit 0"), Duration::from_secs(1), &budgets);
        report.add("test", "cargo xtask test", status("exit 0"), Duration::from_secs(20), &budgets);
        assert_eq!(
            report.lines(&budgets),
            [
                "    took    budget",
                "   7.0 s      60 s  docs",
                "   1.0 s      10 s  tidy",
                "  20.0 s      10 s  test",
                "docs failed (exit status: 101). To repeat it: RUSTDOCFLAGS='-D warnings' cargo doc",
                "test took 20.0 s: 2 times its budget of 10 s, or more (.ci/budgets)",
                "not all passed, in 28 s",
            ]
        );
    }

    #[test]
    fn where_nothing_failed_the_last_line_says_so() {
        let (budgets, mut report) = (Budgets::parse("docs 60").unwrap(), Report::default());
        report.add("docs", DOCS, status("exit 0"), Duration::from_secs(7), &budgets);
        assert_eq!(report.lines(&budgets)[2], "all passed, in 7 s");
        assert!(report.failures.is_empty());
    }
}
