//! `lockkeeper doctor`: problems of the store, present or imminent, and their remedies.

use std::path::Path;

use lockkeeper::doctor::{Finding, Level, examine};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{answer, printable, table};
use crate::reach;
use crate::settings::{Origin, Settings};

/// Prints a line for each check; one that failed is a "no".
pub(crate) async fn doctor(settings: &Settings) -> Result<Exit, Failure> {
    settings.refuse_missing_folder()?;
    let mut findings = vec![configuration(settings), store(settings)];
    findings.extend(examine(&settings.store.url, settings.connect_timeout).await);
    answer(&if settings.json { json(&findings)? } else { text(&findings) })?;
    let failed = findings.iter().any(|found| found.level == Level::Fail);
    Ok(if failed { Exit::No } else { Exit::Ok })
}

fn configuration(settings: &Settings) -> Finding {
    let finding = settings.config.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    Finding::ok("configuration", finding)
}

fn store(settings: &Settings) -> Finding {
    let finding = format!("{}, from {}", settings.store.url, settings.store.origin);
    match settings.store.origin {
        Origin::Default => {
            let reach = reach::of(Path::new(&settings.store.url.path));
            let finding = format!("{}, the default; its locks hold {reach}", settings.store.url);
            Finding::warn("store", finding, "--store, LOCKKEEPER_STORE, or default_store in a configuration")
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
        let line = Line { status: status(*level), check, finding, remedy: remedy(found) };
        serde_json::to_string(&line).map(|line| line + "\n")
    });
    lines.collect::<Result<_, _>>().map_err(|error| Failure::new(Exit::Internal, error.to_string()))
}

/// The finding and its remedy share one column, so that a long finding does not widen all other
/// columns.
fn text(findings: &[Finding]) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|found| {
            let remedy = remedy(found).map(|remedy| format!(". Try: {remedy}")).unwrap_or_default();
            let finding = format!("{}{remedy}", found.finding);
            [status(found.level), found.check, &finding].map(|cell| printable(cell).into_owned()).to_vec()
        })
        .collect();
    table(&rows)
}

/// The remedy, unless it is to run the doctor.
fn remedy(found: &Finding) -> Option<&str> {
    let remedy = found.remedy.as_deref()?;
    let rest = remedy.strip_prefix("lockkeeper doctor").unwrap_or(remedy);
    Some(rest.strip_prefix(", or ").unwrap_or(rest)).filter(|rest| !rest.is_empty())
}

fn status(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        _ => "FAIL",
    }
}
