//! The time budget of each step of CI and of each test program.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Each line has a name, which may have spaces, and its seconds.
pub(crate) const FILE: &str = ".ci/budgets";

/// A step that takes this many times its budget has failed.
const FACTOR: u32 = 2;

/// The budgets, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Budgets(HashMap<String, Duration>);

impl Budgets {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE))
            .with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text).context(FILE)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut budgets = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = || {
                format!(
                    "line {}: {line:?} is no name with its seconds. Try: clippy 150",
                    number + 1
                )
            };
            let (name, seconds) = line.rsplit_once(' ').with_context(at)?;
            let seconds = seconds.parse().ok().filter(|seconds| *seconds > 0).with_context(at)?;
            if budgets.insert(name.trim_end().to_owned(), Duration::from_secs(seconds)).is_some() {
                bail!("line {}: there is another budget of {name}", number + 1);
            }
        }
        Ok(Self(budgets))
    }

    pub(crate) fn of(&self, name: &str) -> Option<Duration> {
        self.0.get(name).copied()
    }

    /// The complaint about a step that took too long.
    pub(crate) fn complaint(&self, name: &str, took: Duration) -> Option<String> {
        let Some(budget) = self.of(name) else {
            let line = format!("{name} {}", took.as_secs() + 1);
            return Some(format!("{name} has no budget. Try: add the line \"{line}\" to {FILE}"));
        };
        (took >= FACTOR * budget).then(|| {
            let (took, budget) = (took.as_secs_f64(), budget.as_secs());
            format!(
                "{name} took {took:.1} s: {FACTOR} times its budget of {budget} s, or more ({FILE})"
            )
        })
    }
}

/// The steps with their times and budgets.
pub(crate) fn table(steps: &[(String, Duration)], budgets: &Budgets) -> Vec<String> {
    let mut lines = vec![format!("{:>8}  {:>8}", "took", "budget")];
    for (name, took) in steps {
        let budget =
            budgets.of(name).map_or("-".to_owned(), |budget| format!("{} s", budget.as_secs()));
        lines.push(format!("{:>6.1} s  {budget:>8}  {name}", took.as_secs_f64()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_name_may_have_spaces_and_comments_are_passed_by() {
        let budgets =
            Budgets::parse("# of 2 cores\n\nclippy 150\n  lockkeeper-live it   446\n").unwrap();
        assert_eq!(budgets.of("clippy"), Some(150 * SECOND));
        assert_eq!(budgets.of("lockkeeper-live it"), Some(446 * SECOND));
        assert_eq!(budgets.of("lockkeeper-live"), None);
    }

    #[test]
    fn what_is_no_budget_is_an_error_that_names_its_line() {
        for wrong in ["clippy", "clippy fast", "clippy 0", "clippy -1", "clippy 1.5"] {
            let error = format!("{:#}", Budgets::parse(&format!("docs 60\n{wrong}")).unwrap_err());
            assert!(error.starts_with(&format!("line 2: {wrong:?}")), "{error}");
        }
        let error = format!("{:#}", Budgets::parse("docs 60\ndocs 70").unwrap_err());
        assert_eq!(error, "line 2: there is another budget of docs");
    }

    #[test]
    fn twice_the_budget_is_a_failure_and_less_is_none() {
        let budgets = Budgets::parse("lockkeeper it 115").unwrap();
        let almost = 230 * SECOND - Duration::from_millis(1);
        assert_eq!(budgets.complaint("lockkeeper it", almost), None);
        assert_eq!(
            budgets.complaint("lockkeeper it", 230 * SECOND).unwrap(),
            "lockkeeper it took 230.0 s: 2 times its budget of 115 s, or more (.ci/budgets)"
        );
    }

    #[test]
    fn what_has_no_budget_is_a_failure_that_says_what_to_add() {
        assert_eq!(
            Budgets::default().complaint("lockkeeper it", SECOND / 2).unwrap(),
            "lockkeeper it has no budget. Try: add the line \"lockkeeper it 1\" to .ci/budgets"
        );
    }

    #[test]
    fn the_table_shows_each_step_with_its_budget_or_none() {
        let steps = [("build".to_owned(), SECOND / 4), ("lockkeeper it".to_owned(), 1234 * SECOND)];
        let said = table(&steps, &Budgets::parse("lockkeeper it 115").unwrap());
        assert_eq!(
            said,
            [
                "    took    budget",
                "   0.2 s         -  build",
                "1234.0 s     115 s  lockkeeper it"
            ]
        );
    }
}
