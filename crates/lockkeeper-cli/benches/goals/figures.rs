//! Figures, and their table.

use std::fmt;
use std::time::Duration;

/// One line of the table.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) measured: String,
    pub(crate) against: String,
    pub(crate) result: String,
    pub(crate) goal: &'static str,
    pub(crate) is_met: bool,
}

impl Row {
    pub(crate) const HEAD: &'static str =
        "| what | lockkeeper | against | result | goal | |\n|---|---|---|---|---|---|";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, measured, against, result, goal, is_met } = self;
        let verdict = if *is_met { "met" } else { "missed" };
        write!(f, "| {what} | {measured} | {against} | {result} | {goal} | {verdict} |")
    }
}

/// Several measurements of the same thing.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The value below which this share of the figures lies.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "few"
        )]
        let at = ((sorted.len() - 1) as f64 * share).round() as usize;
        sorted[at]
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Median, and the middle half of all.
    pub(crate) fn spread(&self, digits: usize) -> String {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| self.quantile(share));
        format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
    }
}

pub(crate) fn micros(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}
