//! Raw figures, one line of JSON for each measurement.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Rounds;

/// The file of the figures.
#[derive(Debug)]
pub struct Report(File);

impl Report {
    /// Creates the file, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
    }

    /// Adds one measurement.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(&mut self, line: &Value) -> Result<()> {
        Ok(writeln!(self.0, "{line}")?)
    }
}

/// A goal, its limit, and the result.
#[derive(Debug)]
pub struct Goal {
    what: String,
    result: String,
    limit: String,
    is_met: bool,
}

impl Goal {
    /// A goal that is met if the median is this or more.
    pub fn at_least(what: impl Into<String>, result: &Rounds, limit: f64) -> Self {
        let is_met = result.median() >= limit;
        Self {
            what: what.into(),
            result: result.spread(digits(limit)),
            limit: format!("at least {limit}"),
            is_met,
        }
    }

    /// A goal that is met if the median is this or less.
    pub fn at_most(what: impl Into<String>, result: &Rounds, limit: f64) -> Self {
        let is_met = result.median() <= limit;
        Self {
            what: what.into(),
            result: result.spread(digits(limit)),
            limit: format!("at most {limit}"),
            is_met,
        }
    }
}

/// The number of digits that distinguishes a result from its limit.
fn digits(limit: f64) -> usize {
    if limit < 2.0 { 3 } else { 1 }
}

/// Prints the goals as a table.
pub fn goals(goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    println!("| goal | result | | |\n|---|---|---|---|");
    for Goal { what, result, limit, is_met } in goals {
        println!("| {what} | {result} | {limit} | {} |", if *is_met { "met" } else { "missed" });
    }
    println!();
}
