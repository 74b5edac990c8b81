//! A client that locks and releases by the runner's orders: `client KIND URL`.

mod blocking;
mod postgres;
mod raw;
mod redlock;
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
use crate::scripts::Scripts;

fn main() -> ExitCode {
    client(obey)
}

fn obey(kind: &str, url: &str) -> Result<()> {
    let (kind, threads) = threads(kind);
    match kind {
        "raw" => blocking::serve(&mut Repeated::connect(url, raw::Raw)?),
        "scripts" => blocking::serve(&mut Repeated::connect(url, Scripts::new(url, None))?),
        "scripts-plain" | "scripts-redisson" => {
            let layout = kind.strip_prefix("scripts-");
            blocking::serve(&mut Repeated::connect(url, Scripts::new(url, layout))?)
        }
        "postgres" => blocking::serve(&mut postgres::Postgres::connect(url)?),
        "lockkeeper" => serve(threads, Mutexes::connect(url)),
        "lockkeeper-read" => serve(threads, Readers::connect(url)),
        "lockkeeper-redlock" => serve(threads, redlock::connect(url)),
        "lockkeeper-plain" | "lockkeeper-redisson" | "lockkeeper-redisson-fenced" => {
            let layout = kind.trim_start_matches("lockkeeper-");
            serve(threads, Mutexes::connect(&format!("{url}?layout={layout}")))
        }
        "lockkeeper-redisson-read" => {
            serve(threads, Readers::connect(&format!("{url}?layout=redisson-rw")))
        }
        "rslock" => serve(threads, Rslock::connect(vec![url.to_owned()], rslock::DELAY)),
        "rslock-1ms" => serve(threads, Rslock::connect(vec![url.to_owned()], rslock::SHORT_DELAY)),
        "rslock-redlock" => {
            let urls = redlock::addresses(url)?.map(|address| format!("redis://{address}"));
            serve(threads, Rslock::connect(urls.collect(), rslock::DELAY))
        }
        _ => bail!("no such kind: {kind}"),
    }
}
