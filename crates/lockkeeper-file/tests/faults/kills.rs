//! Many tasks in several processes on one file store. Every second process is killed.

use std::path::Path;
use std::time::Duration;

use lockkeeper::{FileStore, Keeper};
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::processes::{
    Kills, TestProcess, all_is_to_be_had, checked, lasting,
};
use lockkeeper_testing::history::{History, Kind, Seed};

const PROCESSES: usize = 4;
const TASKS: u64 = 16;
const LOCKS: [(&str, Kind); 2] = [("book", Kind::RwLock), ("pool", Kind::Resized(&[3, 5]))];
const FAULTS: Duration = Duration::from_secs(8);
const ALL_FAULTS: Duration = Duration::from_secs(40);
const TTL: Duration = Duration::from_secs(10);
/// The locks of a killed process are free at once, but nothing here depends on how soon.
const LINGERS: Duration = Duration::from_secs(30);

const TEST: &str = "kills::histories_of_killed_processes_pass_and_leave_no_lock";

#[test]
fn histories_of_killed_processes_pass_and_leave_no_lock() {
    if let Some(process) = TestProcess::here() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(async {
            let keeper = keeper(&process.folder).await;
            process.walk(keeper, &LOCKS, TASKS).await;
        });
    }
    let seed = Seed::several(1).next().unwrap();
    let mut draw = Seeded::new(seed.number());
    let folder = tempfile::tempdir().unwrap();
    let kills = Kills {
        test: TEST,
        folder: folder.path(),
        processes: PROCESSES,
        faults: lasting(FAULTS, ALL_FAULTS),
        grants: (&LOCKS, 510),
    };
    let history =
        kills.play(&mut draw, |_| Duration::from_secs(1)).and(last(folder.path(), &mut draw));
    for summary in checked(&history, &LOCKS, LINGERS, seed) {
        assert!(summary.grants > 500 && summary.unknown > 0 && summary.lost > 0, "{summary:?}");
    }
}

async fn keeper(folder: &Path) -> Keeper {
    let store = FileStore::new(folder.join("locks.db")).open().await.unwrap();
    Keeper::builder(store).ttl(TTL).connect().await.unwrap()
}

fn last(folder: &Path, draw: &mut Seeded) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { all_is_to_be_had(&keeper(folder).await, &LOCKS, draw).await })
}
