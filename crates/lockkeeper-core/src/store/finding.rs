//! What an examination finds, for the doctor and for the examination of one store.

use std::time::Duration;

use crate::Error;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// The store is as it should be, or the finding is only information.
    Ok,
    /// The store works, but not as well as it could, or not for long.
    Warn,
    /// Locks cannot be acquired, or cannot be relied on.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The name of the check, in a word or two.
    pub check: &'static str,
    /// What the check has found, in one line without secrets.
    pub finding: String,
    /// What to try: a few words that fit after `Try:`, as in an error.
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding of the level [`Ok`](Level::Ok).
    pub fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, finding: finding.into(), remedy: None }
    }

    /// A finding of the level [`Warn`](Level::Warn).
    pub fn warn(
        check: &'static str,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warn, check, finding: finding.into(), remedy: Some(remedy.into()) }
    }

    /// A finding of the level [`Fail`](Level::Fail).
    pub fn fail(
        check: &'static str,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Fail, check, finding: finding.into(), remedy: Some(remedy.into()) }
    }

    /// The same, with another remedy.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The finding that an error stands for.
    pub fn failed(check: &'static str, error: &Error) -> Self {
        let remedy = error.remedy().map(str::to_owned);
        Self { level: Level::Fail, check, finding: error.message().to_owned(), remedy }
    }
}

/// The middle one.
#[doc(hidden)]
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What all servers have in common is said once, the rest of each.
#[doc(hidden)]
pub fn said_once(all: Vec<(String, Finding)>, servers: usize) -> Vec<Finding> {
    let mut said: Vec<Finding> = Vec::new();
    for (at, found) in &all {
        let same = all.iter().filter(|(_, other)| other == found).count();
        let found = match same == servers {
            true => found.clone(),
            false => Finding { finding: format!("{at}: {}", found.finding), ..found.clone() },
        };
        if !said.contains(&found) {
            said.push(found);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(Vec::new()), Duration::ZERO);
        assert_eq!(median([9, 1, 5].map(Duration::from_secs).to_vec()), Duration::from_secs(5));
    }

    #[test]
    fn what_all_have_in_common_is_said_once() {
        let ok = || Finding::ok("role", "master");
        let all = vec![
            ("a:1".to_owned(), ok()),
            ("a:1".to_owned(), Finding::ok("server", "7.0.15")),
            ("b:2".to_owned(), ok()),
            ("b:2".to_owned(), Finding::ok("server", "6.2.1")),
        ];
        let said: Vec<_> = said_once(all, 2).into_iter().map(|found| found.finding).collect();
        assert_eq!(said, ["master", "a:1: 7.0.15", "b:2: 6.2.1"]);
    }
}
