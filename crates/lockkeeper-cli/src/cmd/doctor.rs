//! `lockkeeper doctor`: problems of the store, present or imminent, and their remedies.

use std::io;
use std::iter::repeat;
use std::path::Path;

use lockkeeper::doctor::{Finding, Level, examine, initialize};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{answer, json_line, printable, table, width, wrapped};
use crate::reach;
use crate::settings::{Origin, Settings};

/// The width of the output where no terminal has one.
const WIDTH: usize = 100;

/// Prints what each check has found; one that failed is a "no". With `init`, the store is
/// initialized first.
pub(crate) async fn doctor(settings: &Settings, init: bool) -> Result<Exit, Failure> {
    settings.refuse_missing_folder()?;
    let mut findings = vec![configuration(settings), store(settings)];
    let mut url = settings.store.url.clone();
    if let Some(prefix) = &settings.prefix {
        url.common.prefix = Some(prefix.clone());
    }
    if init {
        findings.push(initialize(&url).await?);
    }
    findings.extend(examine(&url, settings.connect_timeout).await);
    answer(&if settings.json {
        json(&findings)?
    } else {
        text(&findings, width(io::stdout()).unwrap_or(WIDTH))
    })?;
    let failed = findings.iter().any(|found| found.level == Level::Fail);
    Ok(if failed { Exit::No } else { Exit::Ok })
}

fn configuration(settings: &Settings) -> Finding {
    let finding = settings
        .config
        .as_ref()
        .map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    Finding::ok("configuration", finding)
}

fn store(settings: &Settings) -> Finding {
    let finding = format!("{}, from {}", settings.store.url, settings.store.origin);
    match settings.store.origin {
        Origin::Default => {
            let reach = reach::of(Path::new(&settings.store.url.path));
            let finding = format!("{}, the default; its locks hold {reach}", settings.store.url);
            Finding::warn(
                "store",
                finding,
                "--store, LOCKKEEPER_STORE, or default_store in a configuration",
            )
        }
        _ => Finding::ok("store", finding),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    status: &'static str,
    check: &'static str,
    finding: &'a str,
    remedy: Option<&'a str>,
}

fn json(findings: &[Finding]) -> Result<String, Failure> {
    let lines = findings.iter().map(|found| {
        let Finding { level, check, finding, .. } = found;
        json_line(&Line { status: status(*level), check, finding, remedy: remedy(found) })
    });
    lines.collect()
}

/// The status, the check, and what it has found; below that the remedy.
fn text(findings: &[Finding], width: usize) -> String {
    let names = findings.iter().map(|found| found.check.chars().count()).max().unwrap_or_default();
    // Two columns with their gaps are before the text.
    let room = width.saturating_sub("warn".len() + names + 4);
    let lines = |found: &Finding| {
        let remedy = remedy(found).map(|remedy| format!("Try: {remedy}"));
        let texts = [Some(found.finding.clone()), remedy].into_iter().flatten();
        texts.flat_map(|text| wrapped(&printable(&text), room)).collect::<Vec<_>>()
    };
    let rows = findings.iter().flat_map(|found| {
        let names = [[status(found.level), found.check]].into_iter().chain(repeat([""; 2]));
        names
            .zip(lines(found))
            .map(|([status, check], line)| vec![status.to_owned(), check.to_owned(), line])
    });
    table(&rows.collect::<Vec<_>>())
}

/// The remedy, unless it is a run of the doctor.
fn remedy(found: &Finding) -> Option<&str> {
    let remedy = found.remedy.as_deref()?;
    let rest = remedy.strip_prefix("lockkeeper doctor").unwrap_or(remedy);
    let is_more = |rest: &&str| !rest.is_empty() && !rest.starts_with(", which ");
    Some(rest.strip_prefix(", or ").unwrap_or(rest)).filter(is_more)
}

fn status(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        _ => "FAIL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_and_remedies_are_wrapped_in_their_column() {
        let findings = [
            Finding::ok("server", "Redis 7.0.15"),
            Finding::warn("round trip", "a lock takes 200ms, which is long", "a nearer store"),
            Finding::fail("role", "a replica", "lockkeeper doctor"),
            Finding::fail("locks", "NOPERM", "lockkeeper doctor, which prints the rule"),
        ];
        let narrow = "ok    server      Redis 7.0.15\n\
                      warn  round trip  a lock takes 200ms,\n                  which is long\n\
                      \x20                 Try: a nearer store\n\
                      FAIL  role        a replica\n\
                      FAIL  locks       NOPERM\n";
        assert_eq!(text(&findings, 40), narrow);
        assert_eq!(text(&findings, 100).lines().count(), 5);
        // No word is cut, however narrow the terminal is.
        assert!(text(&findings, 0).contains("200ms,"));
    }
}
