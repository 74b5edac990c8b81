//! A client that locks and releases by the runner's orders: `client KIND URL`.
//!
//! The client prints `ready`. Then it answers each order on its standard input with one line, until
//! there are no more orders.

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

/// The number of threads of the runtime of a kind, two if its name ends with `-mt`, and the name
/// without this ending.
pub fn threads(kind: &str) -> (&str, usize) {
    kind.strip_suffix("-mt").map_or((kind, 1), |kind| (kind, 2))
}

/// An error with its causes, in one line.
pub fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
