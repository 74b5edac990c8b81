//! A doctor is a table. Each row is a check with its name, its probe, and the verdict on the result
//! of the probe. The verdict has the remedy.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::duration::format_duration;
use crate::store::{Examined, Examining, Finding, Store};
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, Result};

/// A probe gets no more time than this after a probe without an answer.
const AFTER_SILENCE: Duration = Duration::from_secs(1);

/// A row that examines an `S`. [`checks!`](crate::checks) writes rows.
pub type Check<S> = (&'static str, for<'a> fn(&'a S) -> Probing<'a>);

/// The future of a probe and its verdict, which is no finding, one, or several.
pub type Probing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Finding>>> + Send + 'a>>;

/// A row whose verdict needs no probe, since the facts are known already.
pub type Row<S> = (&'static str, fn(&S) -> Option<Finding>);

/// The name of a finding that has the name of its row.
const OF_THE_ROW: &str = "";

/// A good finding of a row.
pub fn ok(finding: impl Into<String>) -> Finding {
    Finding::ok(OF_THE_ROW, finding)
}

/// A warning of a row.
pub fn warn(finding: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding::warn(OF_THE_ROW, finding, remedy)
}

/// A failure of a row.
pub fn fail(finding: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding::fail(OF_THE_ROW, finding, remedy)
}

/// A warning if there is a problem, and a good finding otherwise.
pub fn warn_if(is_wrong: bool, finding: impl Into<String>, remedy: impl Into<String>) -> Finding {
    if is_wrong { warn(finding, remedy) } else { ok(finding) }
}

/// The findings, under the name of the row `check`.
pub fn named(check: &'static str, findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let name =
        |found: Finding| if found.check == OF_THE_ROW { Finding { check, ..found } } else { found };
    findings.into_iter().map(name).collect()
}

/// The verdict of the row `check` on the result of its probe.
pub fn judge<T, V: IntoIterator<Item = Finding>>(
    check: &'static str,
    answer: Result<T>,
    verdict: impl FnOnce(T) -> V,
) -> Result<Vec<Finding>> {
    answer.map(|found| named(check, verdict(found)))
}

/// The verdicts of all rows on `seen`.
pub fn judged<S>(rows: &[Row<S>], seen: &S) -> Vec<Finding> {
    rows.iter().flat_map(|(check, verdict)| named(check, verdict(seen))).collect()
}

/// A table of [`Check`](crate::kit::Check)s: rows of a name, a probe, and a verdict on the result
/// of the probe.
#[macro_export]
macro_rules! checks {
    ($(($name:literal, |$seen:pat_param| $probe:expr, $verdict:expr $(,)?)),+ $(,)?) => {
        [$(($name, |$seen| {
            ::std::boxed::Box::pin(async move { $crate::kit::judge($name, $probe.await, $verdict) })
        })),+]
    };
}

/// An examination under way: its findings so far, and the time of a probe.
#[derive(Debug)]
pub struct Examination {
    pub findings: Vec<Finding>,
    /// How long the next probe may take.
    pub within: Duration,
    at: String,
    is_denied: bool,
}

impl Examination {
    /// The examination of the store `at`, with `within` for each probe.
    pub fn new(at: impl Display, within: Duration) -> Self {
        Self { findings: Vec::new(), at: at.to_string(), within, is_denied: false }
    }

    /// Runs one check after the other. A probe that fails, or gets no answer in time, is a finding
    /// of its check.
    ///
    /// # Cancel safety
    /// The future may be dropped where the futures of the checks may be.
    pub async fn run<S>(&mut self, checks: &[Check<S>], seen: &S) {
        for (check, examine) in checks {
            let silence = "repeat the command, and check the load of the store";
            let found = self.ask(check, silence, examine(seen)).await;
            self.findings.extend(found.into_iter().flatten());
        }
    }

    /// The result of `probe`; without a result there is a finding. `silence` is the remedy if no
    /// answer comes in time.
    pub async fn ask<T>(
        &mut self,
        check: &'static str,
        silence: &str,
        probe: impl Future<Output = Result<T>>,
    ) -> Option<T> {
        let limit = self.within;
        let answer = Clock::boot().timeout(limit, probe).await.unwrap_or_else(|| {
            // A store that is silent makes no other probe wait as long.
            self.within = limit.min(AFTER_SILENCE);
            let problem = format!("{} did not answer within {}", self.at, format_duration(limit));
            Err(Error::new(ErrorKind::Unavailable, problem).with_remedy(silence))
        });
        self.known(check, answer)
    }

    /// A result that is known already; an error is a finding.
    pub fn known<T>(&mut self, check: &'static str, answer: Result<T>) -> Option<T> {
        let failed = |error: Error| {
            self.is_denied |= error.kind() == ErrorKind::Denied;
            self.findings.push(Finding::failed(check, &error));
        };
        answer.map_err(failed).ok()
    }

    /// How long the end may take. A missing right also prevents the release of the locks that are
    /// left.
    pub fn within_at_the_end(&self) -> Duration {
        if self.is_denied { Duration::ZERO } else { self.within }
    }
}

/// What a driver returns: the findings of `doctor`, and the store, if locks can be acquired there.
pub fn examine<S: Store + 'static>(
    url: StoreUrl,
    within: Duration,
    doctor: Doctor<S>,
) -> Examining {
    Box::pin(async move {
        let mut examination = Examination::new(&url, within);
        let store = doctor(&url, &mut examination).await;
        Examined::new(examination.findings, store.map(|store| Arc::new(store) as Arc<dyn Store>))
    })
}

/// Examines the store at a URL.
pub type Doctor<S> = for<'a> fn(
    &'a StoreUrl,
    &'a mut Examination,
) -> Pin<Box<dyn Future<Output = Option<S>> + Send + 'a>>;

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// An empty store; each probe gets no answer, or an error.
    static CHECKS: [Check<()>; 4] = checks! {
        ("silent", |_| pending::<Result<()>>(), |()| None),
        ("also silent", |_| pending::<Result<()>>(), |()| None),
        ("denied", |_| ready(Err::<(), _>(Error::new(ErrorKind::Denied, "no").with_remedy("a right"))), |()| None),
        ("number", |_| ready(Ok(7)), |number| vec![ok(format!("{number}")), Finding::warn("next", "8", "9")]),
    };

    #[tokio::test(start_paused = true)]
    async fn a_probe_without_an_answer_is_a_finding_and_holds_up_no_other() {
        let (began, mut examination) =
            (tokio::time::Instant::now(), Examination::new("x:", Duration::from_secs(9)));
        examination.run(&CHECKS, &()).await;
        assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
        let found: Vec<_> =
            examination.findings.iter().map(|found| (found.check, &*found.finding)).collect();
        assert_eq!(
            found,
            [
                ("silent", "x: did not answer within 9s"),
                ("also silent", "x: did not answer within 1s"),
                ("denied", "no"),
                ("number", "7"),
                ("next", "8"),
            ]
        );
        assert_eq!(
            (examination.within, examination.within_at_the_end()),
            (AFTER_SILENCE, Duration::ZERO)
        );
    }

    #[test]
    fn each_row_gives_its_name_to_its_finding() {
        let rows: [Row<u8>; 3] = [
            ("small", |number| (*number < 10).then(|| ok("yes"))),
            ("large", |number| (*number > 100).then(|| ok("yes"))),
            ("odd", |number| Some(warn_if(number % 2 == 1, "odd", "an even number"))),
        ];
        assert_eq!(
            judged(&rows, &7),
            [Finding::ok("small", "yes"), Finding::warn("odd", "odd", "an even number")]
        );
    }
}
