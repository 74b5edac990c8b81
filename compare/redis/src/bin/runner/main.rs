//! Measures lockkeeper and its peers on one Redis server, in turn: `runner [--quick] [--only KIND,…] [--json FILE] PART…`.
//!
//! `../run` builds everything and calls it.

mod alone;
mod bench;
mod crowd;
mod figures;
mod held;
mod kinds;
mod machine;
mod options;
mod postgres;
mod process;
mod readers;
mod redis;
mod report;

use anyhow::Result;

use crate::bench::Bench;
use crate::options::{Options, Part};

fn main() -> Result<()> {
    let Some(options) = Options::read()? else { return Ok(()) };
    let awake = machine::keep_awake();
    println!("{}", machine::description(awake.is_some()));
    let began = std::time::Instant::now();
    let mut bench = Bench::start(&options)?;
    println!("{}\n", bench.versions()?);
    for part in &options.parts {
        match part {
            Part::Alone => alone::run(&mut bench)?,
            Part::Crowd => crowd::run(&mut bench)?,
            Part::Readers => readers::run(&mut bench)?,
            Part::Held => held::run(&mut bench)?,
        }
    }
    println!("{:.0} s in all; load {} at the end.", began.elapsed().as_secs_f64(), machine::load());
    Ok(())
}
