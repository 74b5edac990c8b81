//! The outcome of the tests, read from the output of their programs.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::budgets::{self, Budgets};

/// The prefix of a line by which a test says that it cannot run here, or a suite how many cases it
/// has left out.
const NOTE: &str = "left out: ";

/// How many of the slowest tests are listed.
const SLOWEST: usize = 20;

/// The results of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) secrets: usize,
    /// Cases that stores cannot do, so that there is no test of them.
    pub(crate) left_out: usize,
    /// Tests that could not test here, and why.
    pub(crate) skipped: Vec<String>,
    /// The names of the failed tests.
    pub(crate) failures: Vec<String>,
    /// How long each test took, if its program reports that.
    pub(crate) times: Vec<(String, Duration)>,
    /// How long all tests took.
    pub(crate) took: Duration,
    /// How long the program computed, with all that the program started.
    pub(crate) cpu: Duration,
    /// The problem of the program, and the command that repeats it.
    pub(crate) complaint: Option<String>,
}

impl Outcome {
    /// Takes the facts about tests from a line.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
        } else if let Some(test) = Test::new(line) {
            self.failures.extend(test.has_failed.then(|| test.name.to_owned()));
            self.times.extend(test.took.map(|took| (test.name.to_owned(), took)));
        } else if let Some(note) = line.strip_prefix(NOTE) {
            let cases = note
                .strip_suffix(" cases")
                .and_then(|note| note.split_once(" of ")?.0.parse::<usize>().ok());
            self.left_out += cases.unwrap_or(0);
            self.skipped.extend(cases.is_none().then(|| note.to_owned()));
        }
    }

    /// Takes the end of the program; `to_repeat` gets the names of the failed tests.
    pub(crate) fn end(
        &mut self,
        name: &str,
        status: ExitStatus,
        to_repeat: impl Fn(&[String]) -> String,
    ) {
        if !status.success() {
            let line = to_repeat(&self.failures);
            self.complaint = Some(format!("{name} failed ({status}). To repeat it: {line}"));
        }
    }
}

/// The result of one test in a line: `test a::b ... ok`, or `test a::b ... FAILED <0.123s>`.
struct Test<'a> {
    name: &'a str,
    has_failed: bool,
    took: Option<Duration>,
}

impl<'a> Test<'a> {
    /// The test in a line, if it has ended.
    fn new(line: &'a str) -> Option<Self> {
        let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let (result, took) = match result.split_once(" <") {
            Some((result, took)) => (result, seconds(took.strip_suffix("s>")?)),
            None => (result, None),
        };
        ["ok", "FAILED"].contains(&result).then_some(Self {
            name,
            has_failed: result == "FAILED",
            took,
        })
    }
}

/// `0.123`
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// The number just before `word`, or 0.
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The results of all programs.
#[derive(Debug, Default)]
pub(crate) struct Total {
    sum: Outcome,
    complaints: Vec<String>,
    /// How long each step took, in order.
    steps: Vec<(String, Duration)>,
    /// How long each program computed.
    cpu: HashMap<String, Duration>,
    /// The budget of each program, if the times are judged.
    budgets: Option<Budgets>,
}

impl Total {
    /// Judges from now on how long each program takes.
    pub(crate) fn judge(&mut self, budgets: Budgets) {
        self.budgets = Some(budgets);
    }

    /// Runs a step without tests, and notes how long it takes.
    pub(crate) fn time<T>(&mut self, name: &str, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = step();
        self.steps.push((name.to_owned(), start.elapsed()));
        done
    }

    pub(crate) fn add(&mut self, name: &str, of: Outcome) {
        self.steps.push((name.to_owned(), of.took));
        if !of.cpu.is_zero() {
            self.cpu.insert(name.to_owned(), of.cpu);
        }
        self.sum
            .times
            .extend(of.times.into_iter().map(|(test, took)| (format!("{name}: {test}"), took)));
        self.sum.passed += of.passed;
        self.sum.failed += of.failed;
        self.sum.secrets += of.secrets;
        self.sum.left_out += of.left_out;
        self.sum.skipped.extend(of.skipped);
        self.complaints.extend(of.complaint);
        self.complaints
            .extend(self.budgets.as_ref().and_then(|budgets| budgets.complaint(name, of.took)));
        if of.secrets > 0 {
            let secrets = format!(
                "{} lines of {name} show a password: see \"a secret was printed\"",
                of.secrets
            );
            self.complaints.push(secrets);
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.complaints.is_empty() && self.sum.failed == 0
    }

    /// Notes a program that is left out, and the command that runs it.
    pub(crate) fn leave_out(&mut self, note: String) {
        self.sum.skipped.push(note);
    }

    /// How long each step took, and the slowest tests.
    pub(crate) fn times(&self) -> Vec<String> {
        let line =
            |(name, took): &(String, Duration)| format!("{:>8.1} s  {name}", took.as_secs_f64());
        let lines = match &self.budgets {
            Some(budgets) => budgets::table(&self.steps, budgets),
            None => self.steps.iter().map(line).collect(),
        };
        let mut lines: Vec<_> = lines.into_iter().map(|line| self.with_cpu(line)).collect();
        let mut tests: Vec<_> = self.sum.times.iter().collect();
        tests.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        tests.truncate(SLOWEST);
        if !tests.is_empty() {
            lines.push("the slowest tests:".to_owned());
            lines.extend(tests.into_iter().map(line));
        }
        lines
    }

    /// The line of a program, with how long the program computed.
    fn with_cpu(&self, line: String) -> String {
        let (_, name) = line.rsplit_once("  ").unwrap_or_default();
        match self.cpu.get(name) {
            Some(cpu) => format!("{line}, computed {:.1} s", cpu.as_secs_f64()),
            None => line,
        }
    }

    /// The failures, and the number of tests.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Outcome { passed, failed, left_out, skipped, .. } = &self.sum;
        let mut lines: Vec<_> = skipped.iter().map(|test| format!("left out: {test}")).collect();
        lines.push(format!("{left_out} cases left out: their stores cannot do them"));
        lines.extend(self.complaints.iter().cloned());
        lines.push(format!("{passed} passed, {failed} failed"));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: &str) -> ExitStatus {
        std::process::Command::new("sh").args(["-c", code]).status().unwrap()
    }

    fn read(lines: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        lines.iter().for_each(|line| outcome.read(line));
        outcome
    }

    #[test]
    fn the_numbers_of_all_results_are_added() {
        let one = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        let other =
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        let outcome = read(&[one, "test a::b ... FAILED", "test a::c ... ok", other]);
        assert_eq!((outcome.passed, outcome.failed), (15, 2));
        assert_eq!(outcome.failures, ["a::b"]);
    }

    #[test]
    fn a_test_that_has_ended_is_read_with_its_time_or_without() {
        let outcome = read(&[
            "test a::b ... FAILED <12.345s>",
            "test a::c ... ok <0.001s>",
            "test a::d ... ok",
            "test src/lib.rs - e (line 3) ... FAILED",
            "test a::f - should panic ... ok <2.000s>",
            "test a::g ... ignored",
            "test a::h has been running for over 60 seconds",
            "test a::i ... ok <soon>",
        ]);
        assert_eq!(outcome.failures, ["a::b", "src/lib.rs - e (line 3)"]);
        let times = [("a::b", 12_345), ("a::c", 1), ("a::f - should panic", 2_000)];
        assert_eq!(
            outcome.times,
            times.map(|(test, took)| (test.to_owned(), Duration::from_millis(took)))
        );
    }

    #[test]
    fn the_time_of_each_step_and_the_slowest_tests_are_listed() {
        let mut total = Total::default();
        assert_eq!(total.time("build", || 7), 7);
        total.add(
            "x",
            Outcome {
                took: Duration::from_millis(1_234_560),
                ..read(&["test a::b ... ok <1.000s>"])
            },
        );
        let many: Vec<_> =
            (0..SLOWEST).map(|i| format!("test c{i} ... ok <{}.000s>", i + 2)).collect();
        total.add("y", read(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        let times = total.times();
        assert_eq!(
            times[..4],
            ["     0.0 s  build", "  1234.6 s  x", "     0.0 s  y", "the slowest tests:"]
        );
        assert_eq!(times[4], "    21.0 s  y: c19");
        assert_eq!(times.len(), 4 + SLOWEST);
        assert!(!times.iter().any(|line| line.contains("a::b")), "{times:?}");
    }

    #[test]
    fn with_budgets_a_program_over_twice_its_budget_or_without_one_fails() {
        let took = |seconds| Outcome {
            took: Duration::from_secs(seconds),
            passed: 1,
            ..Outcome::default()
        };
        let total = |name: &str, seconds| {
            let mut total = Total::default();
            total.judge(Budgets::parse("lockkeeper it 115").unwrap());
            total.time("build", || ());
            total.add(name, took(seconds));
            total
        };
        let good = total("lockkeeper it", 229);
        assert!(good.is_good(), "{:?}", good.lines());
        assert_eq!(good.times()[2], " 229.0 s     115 s  lockkeeper it");
        let (slow, unknown) = (total("lockkeeper it", 230), total("lockkeeper new", 1));
        assert!(
            !slow.is_good() && slow.lines()[1].starts_with("lockkeeper it took 230.0 s"),
            "{:?}",
            slow.lines()
        );
        assert!(
            !unknown.is_good() && unknown.lines()[1].starts_with("lockkeeper new has no budget")
        );
        let mut unjudged = Total::default();
        unjudged.add("lockkeeper new", took(1000));
        assert!(unjudged.is_good());
    }

    #[test]
    fn a_program_that_computed_says_for_how_long() {
        let mut total = Total::default();
        total.judge(Budgets::parse("lockkeeper it 115").unwrap());
        total.time("build", || ());
        let (took, cpu) = (Duration::from_secs(99), Duration::from_millis(105_300));
        total.add("lockkeeper it", Outcome { took, cpu, ..Outcome::default() });
        assert_eq!(
            total.times()[1..],
            ["   0.0 s         -  build", "  99.0 s     115 s  lockkeeper it, computed 105.3 s"]
        );
    }

    #[test]
    fn without_reported_times_no_tests_are_listed() {
        let mut total = Total::default();
        total.add("x", read(&["test a::b ... ok"]));
        assert_eq!(total.times(), ["     0.0 s  x"]);
    }

    #[test]
    fn a_program_that_fails_says_how_to_repeat_it() {
        let mut outcome = read(&["test a::b ... FAILED"]);
        outcome.end("x", status("exit 101"), |tests| format!("cargo test -- {}", tests.join(" ")));
        let complaint = outcome.complaint.clone().unwrap();
        assert_eq!(complaint, "x failed (exit status: 101). To repeat it: cargo test -- a::b");
        let mut total = Total::default();
        total.add("x", outcome);
        assert!(!total.is_good());
        let left_out = "0 cases left out: their stores cannot do them";
        assert_eq!(total.lines(), [left_out, &complaint, "0 passed, 0 failed"]);
    }

    #[test]
    fn what_is_left_out_and_what_is_skipped_is_said() {
        let mut total = Total::default();
        let lines =
            ["left out: 69 of 128 cases", "left out: a::b: only root may", "69 of 128 cases"];
        total.leave_out("y. To run it: cargo xtask test --all".to_owned());
        [&lines[..1], &lines[..]].into_iter().for_each(|lines| total.add("x", read(lines)));
        let said = [
            "left out: y. To run it: cargo xtask test --all",
            "left out: a::b: only root may",
            "138 cases left out: their stores cannot do them",
            "0 passed, 0 failed",
        ];
        assert_eq!(total.lines(), said);
    }

    #[test]
    fn a_program_that_dies_without_a_result_is_no_success() {
        let mut outcome = Outcome::default();
        outcome.end("x", status("kill -9 $$"), |_| String::new());
        let mut total = Total::default();
        total.add("x", outcome);
        assert!(!total.is_good());
    }

    #[test]
    fn a_secret_is_no_success() {
        let mut total = Total::default();
        total.add("x", Outcome { secrets: 2, passed: 1, ..Outcome::default() });
        assert!(!total.is_good() && total.lines()[1].starts_with("2 lines of x show a password"));
    }
}
