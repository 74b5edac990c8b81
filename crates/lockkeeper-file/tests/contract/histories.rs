//! Histories of random operations pass the checker.

use std::sync::mpsc::channel;
use std::time::Duration;

use lockkeeper_testing::history::{Habits, Kind, Plan, Seed};
use lockkeeper_testing::{Ttls, run};

use crate::FileHarness;

/// In real time a seed determines the operations, but not their outcomes.
#[test]
fn all_kinds_pass_on_the_file_store() {
    for kind in [
        Kind::Mutex,
        Kind::RwLock,
        Kind::Semaphore(3),
        Kind::Resized(&[2, 4]),
        Kind::ReentrantMutex,
    ] {
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
}
