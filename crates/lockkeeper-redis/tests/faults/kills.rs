//! Many processes on one Redis server; now and then one of them is killed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper_live::Redis;
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::processes::{
    Kills, TestProcess, all_is_to_be_had, checked, lasting,
};
use lockkeeper_testing::history::{History, Kind, Seed};

const PROCESSES: usize = 20;
const TASKS: u64 = 4;
const LOCKS: [(&str, Kind); 3] =
    [("job", Kind::RwLock), ("book", Kind::RwLock), ("pool", Kind::Resized(&[3, 5]))];
const FAULTS: Duration = Duration::from_secs(8);
const ALL_FAULTS: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(3);
/// The locks of a killed process end with their leases, and the next waiter has to look.
const LINGERS: Duration = Duration::from_secs(15);
/// Where the processes find the address of the server.
const URL: &str = "server.url";

const TEST: &str = "kills::histories_of_twenty_killed_processes_pass_and_leave_no_lock";

/// 30 s of 20 processes, one killed about twice a second: no two clients have held locks that
/// exclude each other, tokens rise, a killed process's locks end with their leases, and in the end
/// every lock is free.
#[test]
fn histories_of_twenty_killed_processes_pass_and_leave_no_lock() {
    if let Some(process) = TestProcess::here() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(async {
            let keeper = keeper(&process.folder).await;
            process.walk(keeper, &LOCKS, TASKS).await;
        });
    }
    let seed = Seed::several(1).next().unwrap();
    let mut draw = Seeded::new(seed.number());
    let (server, folder) = (Redis::start().unwrap(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join(URL), server.url()).unwrap();
    let kills = Kills {
        test: TEST,
        folder: folder.path(),
        processes: PROCESSES,
        faults: lasting(FAULTS, ALL_FAULTS),
        grants: (&LOCKS, 210),
    };
    let history = kills
        .play(&mut draw, |draw| Duration::from_millis(draw.below(1000)))
        .and(last(folder.path(), &mut draw));
    for summary in checked(&history, &LOCKS, LINGERS, seed) {
        assert!(summary.grants > 200 && summary.unknown > 0, "{summary:?}");
    }
}

async fn keeper(folder: &Path) -> Keeper {
    let url = fs::read_to_string(folder.join(URL)).unwrap();
    Keeper::from_url(url.as_str()).unwrap().ttl(TTL).connect().await.unwrap()
}

fn last(folder: &Path, draw: &mut Seeded) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let keeper = keeper(folder).await;
        for (lock, _) in LOCKS {
            // The locks of killed processes: no process is there to release them.
            let began = Instant::now();
            while keeper.inspect(lock).await.unwrap().is_held() {
                assert!(began.elapsed() < LINGERS, "{lock} is held by nobody");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        all_is_to_be_had(&keeper, &LOCKS, draw).await
    })
}
