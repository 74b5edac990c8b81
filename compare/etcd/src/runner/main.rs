//! Measures lockkeeper and its peers on one etcd, in turn:
//! `compare-etcd [--quick] [--only KIND,…] PART…`.
//!
//! `../../run` builds everything and calls it.

mod aged;
mod alone;
mod crowd;
mod etcd;
mod held;
mod http;
mod kinds;
mod waiters;

use anyhow::{Context, Result, ensure};
use compare_common::runner::{Options, Usage, machine};

use crate::etcd::Etcd;

type Bench = compare_common::runner::Bench<Etcd>;

const USAGE: Usage = Usage {
    help: "\
usage: run [--quick] [--members N] [--only KIND,…] [--json FILE] [PART…]

Measures lockkeeper and its peers on one etcd, which it starts itself.

parts (all, unless named):
  alone    locks that nobody else wants: pairs per second, cost on the server
  aged     one lock that is taken thousands of times
  crowd    8 clients on one lock: hand-offs, waits, fairness; on Debian's etcd too, where it is installed
  waiters  1 000 tasks of one client that wait for one lock
  held     10 000 locks that are held for a while

  --members N   so many members instead of one
",
    parts: &["alone", "aged", "crowd", "waiters", "held"],
    usual: &["alone", "aged", "crowd", "waiters", "held"],
    settings: &["--members"],
};

fn main() -> Result<()> {
    let Some(options) = USAGE.read()? else { return Ok(()) };
    let members = members(&options)?;
    let awake = machine::keep_awake();
    println!("{}", machine::description(awake.is_some()));
    let began = std::time::Instant::now();
    let program = options.programs.join("etcd");
    let mut bench = Bench::start(&options, |_| Etcd::start(&program, members))?;
    println!("{}; {}\n", bench.servers.description(), bench.versions());
    for part in &options.parts {
        match part.as_str() {
            "alone" => drop(alone::ALONE.run(&mut bench, None)?),
            "crowd" => crowd::run(&mut bench, members)?,
            "aged" => aged::run(&mut bench)?,
            "waiters" => waiters::run(&mut bench)?,
            _ => held::run(&mut bench)?,
        }
    }
    println!("{:.0} s in all; load {} at the end.", began.elapsed().as_secs_f64(), machine::load());
    Ok(())
}

fn members(options: &Options) -> Result<usize> {
    let Some(value) = options.settings.get("--members") else { return Ok(1) };
    let members = value
        .parse()
        .ok()
        .with_context(|| format!("--members {value} is no number. Try: --members 3"))?;
    ensure!((1..=7).contains(&members), "--members {value} is too many or none. Try: --members 3");
    Ok(members)
}
