//! A client that locks and releases by the runner's orders: `client KIND URL`.

mod lease;
mod raw;
mod sessions;
mod v3lock;

use std::process::ExitCode;

use anyhow::{Result, bail};
use compare_common::client::keeper::Mutexes;
use compare_common::client::tasks::serve;
use compare_common::client::{main as client, threads};

use crate::raw::Raw;
use crate::sessions::Sessions;
use crate::v3lock::V3lock;

fn main() -> ExitCode {
    client(obey)
}

fn obey(kind: &str, url: &str) -> Result<()> {
    let (kind, threads) = threads(kind);
    match kind {
        "raw" => serve(threads, Raw::connect(url)),
        // The URL sets the layout.
        "lockkeeper" | "lockkeeper-concurrency" => serve(threads, Mutexes::connect(url)),
        "lockkeeper-sessions" | "lockkeeper-concurrency-sessions" => {
            serve(threads, Sessions::connect(url))
        }
        "v3lock" => serve(threads, V3lock::connect(url)),
        _ => bail!("no such kind: {kind}"),
    }
}
