//! Measures lockkeeper and its peers on Redis servers, in turn:
//! `compare-redis [--quick] [--only KIND,…] PART…`.
//!
//! `../../run` builds everything and calls it.

mod alone;
mod crowd;
mod held;
mod kinds;
mod layouts;
mod majority;
mod postgres;
mod readers;
mod redis;
mod redlock;
mod servers;
mod slow;

use anyhow::Result;
use compare_common::runner::{Usage, machine};

use crate::servers::All;

type Bench = compare_common::runner::Bench<All>;

const USAGE: Usage = Usage {
    help: "\
usage: run [--quick] [--only KIND,…] [--json FILE] [PART…]

Measures lockkeeper and its peers on Redis servers, which it starts itself.

parts (alone, crowd and readers, unless named):
  alone    locks that nobody else wants: pairs per second, cost on the server
  crowd    8 and 64 clients on one lock: hand-offs, waits, fairness
  readers  the cost of a read lock among 100 readers
  layouts  the first two on the layouts of other libraries; about 5 minutes
  redlock  the first two on 3 and on 5 servers: all there, one slow, one dead; of 3 also one paused; about 12 minutes
  held     10 000 and 100 000 locks renewed for a minute; about 10 minutes
",
    parts: &["alone", "crowd", "readers", "layouts", "redlock", "held"],
    usual: &["alone", "crowd", "readers"],
    settings: &[],
};

fn main() -> Result<()> {
    let Some(options) = USAGE.read()? else { return Ok(()) };
    let awake = machine::keep_awake();
    println!("{}", machine::description(awake.is_some()));
    let began = std::time::Instant::now();
    let mut bench = Bench::start(&options, All::start)?;
    println!("redis-server {}; {}\n", bench.servers.redis.version()?, bench.versions());
    for part in &options.parts {
        match part.as_str() {
            "alone" => drop(alone::ALONE.run(&mut bench, None)?),
            "crowd" => crowd::run(&mut bench)?,
            "readers" => readers::run(&mut bench)?,
            "layouts" => layouts::run(&mut bench)?,
            "redlock" => redlock::run(&mut bench)?,
            _ => held::run(&mut bench)?,
        }
    }
    println!("{:.0} s in all; load {} at the end.", began.elapsed().as_secs_f64(), machine::load());
    Ok(())
}
