//! A client that locks and releases by the runner's orders: `client KIND URL`.

mod blocking;
mod postgres;
mod raw;
mod resp;
mod rslock;
mod scripts;

use std::process::ExitCode;

use anyhow::{Result, bail};
use compare_common::client::keeper::{Mutexes, Readers};
use compare_common::client::tasks::serve;
use compare_common::client::{main as client, threads};

use crate::blocking::Repeated;
use crate::rslock::Rslock;

fn main() -> ExitCode {
    client(obey)
}

fn obey(kind: &str, url: &str) -> Result<()> {
    let (kind, threads) = threads(kind);
    match kind {
        "raw" => blocking::serve(&mut Repeated::connect(url, raw::Raw)?),
        "scripts" => blocking::serve(&mut Repeated::connect(url, scripts::Scripts::new(url))?),
        "postgres" => blocking::serve(&mut postgres::Postgres::connect(url)?),
        "lockkeeper" => serve(threads, Mutexes::connect(url)),
        "lockkeeper-read" => serve(threads, Readers::connect(url)),
        "rslock" => serve(threads, Rslock::connect(url, rslock::DELAY)),
        "rslock-1ms" => serve(threads, Rslock::connect(url, rslock::SHORT_DELAY)),
        _ => bail!("no such kind: {kind}"),
    }
}
