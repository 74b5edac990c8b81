//! A nightly job on five hosts: all hosts wake for the job, and one host runs it.
//!
//! Each host has a crontab and a clock of its own, and no host has a special role. The first
//! host that takes the lock runs the job, and the other hosts find the lock taken and go. The
//! clocks differ a little, so the lock is held for longer than they may differ, even if the job is
//! short. A host that comes later than that (its clock is wrong, or it was asleep) takes the lock,
//! and finds by the record that the job is done.
//!
//! `cargo run --example blocking_cron --features blocking`
//!
//! The program has no async code. The hosts are threads here, each with a connection of its own to
//! one file of locks.

#![allow(clippy::expect_used, reason = "an example that fails panics")]

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lockkeeper::blocking::{Guard, Keeper, connect};
use lockkeeper::{FencingToken, Result};

const NIGHTS: usize = 4;
/// By how many milliseconds the clocks are slow. The hosts have different clocks each night.
const CLOCKS: [u64; 5] = [20, 0, 40, 5, 60];
/// The minimum hold: longer than the difference of any two clocks.
const MIN_HOLD: Duration = Duration::from_millis(300);

/// The record of the job: each night, and the token of the run.
type Record = Mutex<Vec<(usize, FencingToken)>>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let hosts = CLOCKS.iter().map(|_| connect(&url)).collect::<Result<Vec<_>>>()?;
    let record = Record::default();
    for night in 1..=NIGHTS {
        midnight(&hosts, night, &record)?;
    }

    let record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
    let nights: Vec<_> = record.iter().map(|(night, _)| *night).collect();
    assert_eq!(nights, (1..=NIGHTS).collect::<Vec<_>>(), "the job ran once each night");
    assert!(
        record.is_sorted_by(|(_, one), (_, next)| one < next),
        "each run has a higher token than the one before"
    );
    println!("{NIGHTS} nights, {} hosts, {} runs", hosts.len(), record.len());
    Ok(())
}

/// Wakes all hosts, each when its clock says midnight.
fn midnight(hosts: &[Keeper], night: usize, record: &Record) -> Result<()> {
    thread::scope(|threads| {
        let crontabs = hosts.iter().zip(1..).map(|(keeper, host)| {
            let slow = CLOCKS[(host + night) % CLOCKS.len()];
            threads.spawn(move || {
                thread::sleep(Duration::from_millis(slow));
                wake(keeper, host, night, record)
            })
        });
        let crontabs: Vec<_> = crontabs.collect();
        crontabs.into_iter().try_for_each(|crontab| crontab.join().expect("a host does not panic"))
    })
}

/// The crontab of a host starts this function.
fn wake(keeper: &Keeper, host: usize, night: usize, record: &Record) -> Result<()> {
    let job = keeper.mutex("cron/nightly-report")?;
    let Some(guard) = job.attempt().reason(format!("host {host}")).try_lock()? else {
        println!("night {night}: host {host} finds it taken, and goes");
        return Ok(());
    };
    if is_done(record, night) {
        println!("night {night}: host {host} comes late, and finds it done");
    } else {
        guard.while_held(|| run(&guard, host, night, record))?;
        thread::sleep(MIN_HOLD);
    }
    guard.release()
}

fn is_done(record: &Record, night: usize) -> bool {
    record.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(done, _)| *done == night)
}

/// The job itself.
fn run(guard: &Guard, host: usize, night: usize, record: &Record) {
    println!("night {night}: host {host} runs it, with the token {}", guard.token());
    record.lock().unwrap_or_else(PoisonError::into_inner).push((night, guard.token()));
}
