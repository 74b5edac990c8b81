//! Many processes on three members of etcd, whose leader is killed, stopped and cut off, again and
//! again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper_live::Etcd;
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::processes::{
    RunningProcess, TestProcess, all_is_to_be_had, checked, lacks_grants, lasting, recorded,
};
use lockkeeper_testing::history::{Kind, Seed};

use crate::support::patiently;

const PROCESSES: u64 = 4;
const TASKS: u64 = 3;
const LOCKS: [(&str, Kind); 3] =
    [("job", Kind::RwLock), ("book", Kind::RwLock), ("pool", Kind::Resized(&[3, 5]))];
const FAULTS: Duration = Duration::from_secs(12);
const ALL_FAULTS: Duration = Duration::from_secs(40);
const TTL: Duration = Duration::from_secs(4);
/// A lock that was lost without a leader ends with its lease, which a new leader starts from its
/// beginning.
const LINGERS: Duration = Duration::from_secs(20);
/// How long all waiters together may take after the last fault.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Where the processes find the address of the servers.
const URL: &str = "server.url";

const TEST: &str = "histories::histories_pass_while_one_leader_after_the_other_fails";

/// No two clients have held locks that exclude each other, tokens rise, and in the end every lock
/// is free.
#[test]
fn histories_pass_while_one_leader_after_the_other_fails() {
    if let Some(process) = TestProcess::here() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(async {
            let keeper = keeper(&process.folder).await;
            process.walk(keeper, &LOCKS, TASKS).await;
        });
    }
    let seed = Seed::several(1).next().unwrap();
    let mut draw = Seeded::new(seed.number());
    let mut etcd = Etcd::builder().members(3).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(URL), etcd.url() + "?timeout=1s").unwrap();
    let running: Vec<RunningProcess> = (1..=PROCESSES)
        .map(|number| TestProcess::start(TEST, folder.path(), number, draw.number()))
        .collect();
    let (began, mut faults) = (Instant::now(), 0);
    while began.elapsed() < lasting(FAULTS, ALL_FAULTS)
        || lacks_grants(folder.path(), (&LOCKS, 21), began)
    {
        fail(&mut etcd, faults % 3, Duration::from_millis(500 + draw.below(1500)));
        faults += 1;
        std::thread::sleep(Duration::from_millis(500 + draw.below(1000)));
    }
    let last_fault = Instant::now();
    running.into_iter().for_each(RunningProcess::finish);
    let finished = last_fault.elapsed();
    assert!(finished < TIME_LIMIT, "the last waiter finished {finished:?} after the last fault");
    eprintln!("{faults} leaders failed, the last waiter finished {finished:?} after that");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let last = runtime.block_on(async {
        let keeper = keeper(folder.path()).await;
        for (lock, _) in LOCKS {
            // The locks that could not be released without a leader.
            let began = Instant::now();
            while patiently(async || keeper.inspect(lock).await).await.is_held() {
                assert!(began.elapsed() < LINGERS, "{lock} is held by nobody");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        all_is_to_be_had(&keeper, &LOCKS, &mut draw).await
    });
    let history = recorded(folder.path()).unwrap().and(last);
    for summary in checked(&history, &LOCKS, LINGERS, seed) {
        assert!(summary.grants > 20, "{summary:?}");
    }
}

/// The leader fails in one of three ways, for so long.
fn fail(etcd: &mut Etcd, how: usize, lasting: Duration) {
    let leader = etcd.leader().unwrap();
    match how {
        0 => etcd.kill(leader).unwrap(),
        1 => etcd.pause(leader).unwrap(),
        _ => etcd.isolate(leader).unwrap(),
    }
    etcd.wait_for_other_leader(leader).unwrap();
    std::thread::sleep(lasting);
    match how {
        0 => etcd.restart(leader).unwrap(),
        1 => etcd.resume(leader).unwrap(),
        _ => etcd.heal(leader),
    }
}

/// The leader may be killed just now.
async fn keeper(folder: &Path) -> Keeper {
    let url = fs::read_to_string(folder.join(URL)).unwrap();
    patiently(async || Keeper::from_url(url.as_str()).unwrap().ttl(TTL).connect().await).await
}
