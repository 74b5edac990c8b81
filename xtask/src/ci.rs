//! `cargo xtask ci`: all that a change has to pass, for `.ci/run`.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::budgets::{self, Budgets};
use crate::commands::without_own_variables;

/// The name of a step, and its line for a shell.
type Step = (&'static str, &'static str);

/// The steps before all others, one after the other. Steps that fail fast come first.
const FIRST: [Step; 3] = [
    (
        "formatting",
        "cargo fmt --all --check && cargo fmt --manifest-path compare/Cargo.toml --all --check",
    ),
    ("tidy", "cargo xtask tidy"),
    ("build", "cargo test --workspace --all-features --locked --no-run"),
];

/// The tests wait for most of their time. The last lines of the last step name the failed tests:
/// they stay in sight where only the end of a log is kept.
const TESTS: [Step; 2] = [("interop", "cargo xtask interop"), ("test", "cargo xtask test")];

/// The checks compute, beside the tests.
const CHECKS: [Step; 3] = [
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
];

/// The components of the toolchain that the steps need.
const COMPONENTS: [&str; 2] = ["fmt", "clippy"];

/// Runs every step, even after a failure. Prints the time of each step and the failures at the end.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    COMPONENTS.into_iter().try_for_each(need)?;
    let budgets = Budgets::read(root)?;
    has_all(&budgets, &[&FIRST[..], &TESTS, &CHECKS].concat())?;
    let start = Instant::now();
    let mut report = Report::default();
    let mut add = |steps: Vec<Ended>| {
        steps.into_iter().for_each(|(step, status, took)| report.add(step, status, took, &budgets));
    };
    add(run_all(root, &FIRST, Output::Shown)?);
    let (tests, checks) = std::thread::scope(|scope| {
        let checks = scope.spawn(|| run_all(root, &CHECKS, Output::ShownAtItsEnd));
        let tests = run_all(root, &TESTS, Output::Shown);
        (tests, checks.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    add(checks?);
    add(tests?);
    for line in report.lines(&budgets, start.elapsed()) {
        println!("ci: {line}");
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What becomes of the output of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Shown,
    /// The output comes as a whole, so that it does not mix with the output of another step.
    ShownAtItsEnd,
}

/// A step with its exit status and its time.
type Ended = (Step, ExitStatus, Duration);

fn run_all(root: &Path, steps: &[Step], output: Output) -> Result<Vec<Ended>> {
    steps.iter().map(|step| run_one(root, *step, output)).collect()
}

fn run_one(root: &Path, step: Step, output: Output) -> Result<Ended> {
    let (name, line) = step;
    println!("ci: {name}: {line}");
    let start = Instant::now();
    let status = match output {
        Output::Shown => command(root, line).status().context("cannot run sh")?,
        Output::ShownAtItsEnd => {
            let ended = command(root, &format!("exec 2>&1; {line}"))
                .stderr(Stdio::inherit())
                .output()
                .context("cannot run sh")?;
            print!("ci: {name} printed:\n{}", String::from_utf8_lossy(&ended.stdout));
            ended.status
        }
    };
    Ok((step, status, start.elapsed()))
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
    fn add(&mut self, step: Step, status: ExitStatus, took: Duration, budgets: &Budgets) {
        let (name, line) = step;
        if !status.success() {
            self.failures.push(format!("{name} failed ({status}). To repeat it: {line}"));
        }
        self.failures.extend(budgets.complaint(name, took));
        self.took.push((name.to_owned(), took));
    }

    /// The times, the failures, and in the last line whether any step failed.
    fn lines(&self, budgets: &Budgets, all: Duration) -> Vec<String> {
        let mut lines = budgets::table(&self.took, budgets);
        lines.extend(self.failures.iter().cloned());
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
        let steps = [&FIRST[..], &TESTS, &CHECKS].concat();
        has_all(&Budgets::read(&crate::root().unwrap()).unwrap(), &steps).unwrap();
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
    fn steps_go_on_after_one_that_fails() {
        let root = crate::root().unwrap();
        for output in [Output::Shown, Output::ShownAtItsEnd] {
            let ended = run_all(&root, &[("one", "exit 3"), ("two", "exit 0")], output).unwrap();
            let codes: Vec<_> = ended.iter().map(|(_, status, _)| status.code()).collect();
            assert_eq!(codes, [Some(3), Some(0)]);
        }
    }

    #[test]
    fn every_failure_is_listed_after_the_times_with_its_command() {
        let (budgets, mut report) =
            (Budgets::parse("docs 60\ntest 10\ntidy 10").unwrap(), Report::default());
        report.add(("docs", DOCS), status("exit 101"), Duration::from_secs(7), &budgets);
        report.add(
            ("tidy", "cargo xtask tidy"),
            status("exit 0"),
            Duration::from_secs(1),
            &budgets,
        );
        report.add(
            ("test", "cargo xtask test"),
            status("exit 0"),
            Duration::from_secs(20),
            &budgets,
        );
        assert_eq!(
            report.lines(&budgets, Duration::from_secs(28)),
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
        report.add(("docs", DOCS), status("exit 0"), Duration::from_secs(7), &budgets);
        assert_eq!(report.lines(&budgets, Duration::from_secs(7))[2], "all passed, in 7 s");
        assert!(report.failures.is_empty());
    }
}
