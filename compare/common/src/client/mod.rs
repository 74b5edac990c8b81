//! A client that locks and releases when it is told to: `client KIND URL`.
//!
//! It says `ready`, then answers each order of its standard input with one line, until there are no
//! more.

mod held;
pub mod keeper;
pub mod tasks;

use std::process::ExitCode;

use anyhow::{Context, Result};

/// Serves the kind and the URL that the arguments name.
pub fn main(serve: impl FnOnce(&str, &str) -> Result<()>) -> ExitCode {
    let serving = || {
        let mut args = std::env::args().skip(1);
        let kind = args.next().context("usage: client KIND URL")?;
        let url = args.next().context("usage: client KIND URL")?;
        serve(&kind, &url)
    };
    match serving() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// How many threads the runtime of a kind has, two if its name ends with `-mt`, and what it is
/// called without that.
pub fn threads(kind: &str) -> (&str, usize) {
    kind.strip_suffix("-mt").map_or((kind, 1), |kind| (kind, 2))
}

/// An error with its causes, in one line.
pub fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
