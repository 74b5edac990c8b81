//! Many processes on one store; now and then one of them is killed.

use std::fs;
use std::time::{Duration, Instant};

use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::Seed;
use lockkeeper_testing::history::processes::{
    Kills, TestProcess, all_is_to_be_had, checked, lasting,
};

use super::keeper;
use crate::locks::patiently;
use crate::server::LiveStore;

const FAULTS: Duration = Duration::from_secs(8);
const ALL_FAULTS: Duration = Duration::from_secs(60);
/// Where the processes find the address of the store.
const URL: &str = "store.url";

const TEST: &str = "kills::histories_of_killed_processes_pass_and_leave_no_lock";

/// Processes with several tasks each, one killed now and then: no two clients have held
/// locks that exclude each other, tokens rise, a killed process's locks become free, and in the end
/// every lock is free.
pub async fn histories_of_killed_processes_pass_and_leave_no_lock<S: LiveStore>() {
    let plan = S::KILLED_PROCESSES;
    if let Some(process) = TestProcess::here() {
        let url = fs::read_to_string(process.folder.join(URL)).unwrap();
        let keeper = keeper(&url, plan.ttl).await;
        return process.walk(keeper, S::LOCKS, plan.tasks).await;
    }
    let seed = Seed::several(1).next().unwrap();
    let mut draw = Seeded::new(seed.number());
    let (store, folder) = (S::start().unwrap(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join(URL), store.url()).unwrap();
    let test = format!("{}::{TEST}", S::SUITE);
    let kills = Kills {
        test: &test,
        folder: folder.path(),
        processes: plan.processes,
        faults: lasting(FAULTS, ALL_FAULTS),
        grants: (S::LOCKS, plan.grants + 10),
    };
    let pause = u64::try_from(plan.pause.as_millis()).unwrap();
    let history = kills.play(&mut draw, |draw| Duration::from_millis(draw.below(pause)));
    let keeper = keeper(&store.url(), plan.ttl).await;
    for (lock, _) in S::LOCKS {
        // The locks of killed processes: no process is there to release them.
        let began = Instant::now();
        while patiently(async || keeper.inspect(*lock).await).await.is_held() {
            assert!(began.elapsed() < plan.lingers, "{lock} is held by nobody");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let history = history.and(all_is_to_be_had(&keeper, S::LOCKS, &mut draw).await);
    for summary in checked(&history, S::LOCKS, plan.lingers, seed) {
        assert!(
            summary.grants > plan.grants && summary.unknown > 0 && summary.lost > 0,
            "{summary:?}"
        );
    }
}
