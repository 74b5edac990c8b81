//! What became of the tests, read from what their programs print.

use std::process::ExitStatus;

/// What a line begins with by which a test says that it cannot show what it shows, or how many cases
/// a suite has made no tests of.
const NOTE: &str = "left out: ";

/// Of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) secrets: usize,
    /// Cases that stores cannot do, of which no test was made.
    pub(crate) left_out: usize,
    /// Tests that could not test here, and why.
    pub(crate) skipped: Vec<String>,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
    /// What went wrong with the program, and how to repeat it.
    pub(crate) complaint: Option<String>,
}

impl Outcome {
    /// Takes from a line what it says of tests.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        } else if let Some(note) = line.strip_prefix(NOTE) {
            let cases = note.strip_suffix(" cases").and_then(|note| note.split_once(" of ")?.0.parse::<usize>().ok());
            self.left_out += cases.unwrap_or(0);
            self.skipped.extend(cases.is_none().then(|| note.to_owned()));
        }
    }

    /// Takes how the program has ended; `to_repeat` is told which tests failed.
    pub(crate) fn end(&mut self, name: &str, status: ExitStatus, to_repeat: impl Fn(&[String]) -> String) {
        if !status.success() {
            let line = to_repeat(&self.failures);
            self.complaint = Some(format!("{name} failed ({status}). To repeat it: {line}"));
        }
    }
}

/// The number at the end of what stands before `word`, or 0.
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Of all programs.
#[derive(Debug, Default)]
pub(crate) struct Total {
    sum: Outcome,
    complaints: Vec<String>,
}

impl Total {
    pub(crate) fn add(&mut self, name: &str, of: Outcome) {
        self.sum.passed += of.passed;
        self.sum.failed += of.failed;
        self.sum.secrets += of.secrets;
        self.sum.left_out += of.left_out;
        self.sum.skipped.extend(of.skipped);
        self.complaints.extend(of.complaint);
        if of.secrets > 0 {
            let secrets = format!("{} lines of {name} show a password: see \"a secret was printed\"", of.secrets);
            self.complaints.push(secrets);
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.complaints.is_empty() && self.sum.failed == 0
    }

    /// What failed, and how many there were.
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
        let other = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        let outcome = read(&[one, "test a::b ... FAILED", "test a::c ... ok", other]);
        assert_eq!((outcome.passed, outcome.failed), (15, 2));
        assert_eq!(outcome.failures, ["a::b"]);
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
        let lines = ["left out: 69 of 128 cases", "left out: a::b: only root may", "69 of 128 cases"];
        [&lines[..1], &lines[..]].into_iter().for_each(|lines| total.add("x", read(lines)));
        let said =
            ["left out: a::b: only root may", "138 cases left out: their stores cannot do them", "0 passed, 0 failed"];
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
