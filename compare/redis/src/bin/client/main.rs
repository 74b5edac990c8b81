//! A client that locks and releases when it is told to: `client KIND URL`.
//!
//! It says `ready`, then answers each order of its standard input with one line, until there are no more.

mod blocking;
mod held;
mod keeper;
mod postgres;
mod raw;
mod resp;
mod rslock;
mod scripts;
mod tasks;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::blocking::Repeated;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().context("usage: client KIND URL")?;
    let url = args.next().context("usage: client KIND URL")?;
    // A kind that ends with `-mt` has a runtime with two worker threads.
    let (kind, threads) = kind.strip_suffix("-mt").map_or((kind.as_str(), 1), |kind| (kind, 2));
    match kind {
        "raw" => blocking::serve(&mut Repeated::connect(&url, raw::Raw)?),
        "scripts" => blocking::serve(&mut Repeated::connect(&url, scripts::Scripts::new(&url))?),
        "postgres" => blocking::serve(&mut postgres::Postgres::connect(&url)?),
        "lockkeeper" => tasks::serve(threads, keeper::Mutexes::connect(&url)),
        "lockkeeper-read" => tasks::serve(threads, keeper::Readers::connect(&url)),
        "rslock" => tasks::serve(threads, rslock::Rslock::connect(&url, rslock::DELAY)),
        "rslock-1ms" => tasks::serve(threads, rslock::Rslock::connect(&url, rslock::SHORT_DELAY)),
        _ => bail!("no such kind: {kind}"),
    }
}

/// An error with its causes, in one line.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
