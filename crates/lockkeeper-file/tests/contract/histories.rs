//! Histories of random operations pass the checker.

use std::sync::mpsc::channel;
use std::time::Duration;

use lockkeeper_testing::history::{Habits, Kind, Plan, Seed};
use lockkeeper_testing::{Ttls, run};

use crate::FileHarness;

/// In real time a seed determines the operations, but not their outcomes.
fn passes(kind: Kind) {
    let ttls = Ttls { ttl: Duration::from_secs(3), ..Ttls::quick().without_delay() };
    let habits = Habits { pause: Duration::from_millis(20), ..Plan::calm(kind, ttls).habits };
    let plan = Plan { habits, lingers: Duration::from_secs(2), ..Plan::calm(kind, ttls) };
    let (seed, (sender, receiver)) = (Seed::several(1).next().unwrap(), channel());
    run::<FileHarness>("file", &[], async |case| {
        sender
            .send(plan.check(case, seed).await.unwrap_or_else(|wrong| panic!("{wrong}")))
            .unwrap();
    });
    let summary = receiver.recv().unwrap();
    assert!(summary.grants > 30, "{seed}: {summary:?}");
}

#[test]
fn a_mutex_passes() {
    passes(Kind::Mutex);
}

#[test]
fn a_read_write_lock_passes() {
    passes(Kind::RwLock);
}

#[test]
fn a_semaphore_passes() {
    passes(Kind::Semaphore(3));
}

#[test]
fn a_semaphore_of_changing_size_passes() {
    passes(Kind::Resized(&[2, 4]));
}

#[test]
fn a_reentrant_mutex_passes() {
    passes(Kind::ReentrantMutex);
}
