//! Many tasks in several processes on one file store, and every second one of the processes is killed.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::testing::Seeded;
use lockkeeper::testing::history::{Contestant, Habits, History, Kind, LibraryClient, Recorder, Rules, Seed, Walker};
use lockkeeper::time::Clock;
use lockkeeper::{FileStore, Keeper};

const PROCESSES: usize = 4;
const TASKS: u64 = 16;
const LOCKS: [(&str, Kind); 2] = [("book", Kind::RwLock), ("pool", Kind::Semaphore(5))];
const FAULTS: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(10);
/// A killed process's locks are free at once; nothing here hangs on how soon.
const LINGERS: Duration = Duration::from_secs(30);

/// What a walking process is told: its name, its seed, and in which folder.
const WALKERS: &str = "LOCKKEEPER_TEST_WALKERS";

#[test]
fn histories_of_processes_that_are_killed_pass_and_nothing_is_left_of_them() {
    if let Ok(told) = std::env::var(WALKERS) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(walk(&told));
    }
    let seed = Seed::several(1).next().unwrap();
    let mut draw = Seeded::new(seed.number());
    let folder = tempfile::tempdir().unwrap();
    let mut lives = 0;
    let mut start = |draw: &mut Seeded| {
        lives += 1;
        Walkers::start(folder.path(), lives, draw.number())
    };
    let mut processes: Vec<Walkers> = (0..PROCESSES).map(|_| start(&mut draw)).collect();
    let began = Instant::now();
    while began.elapsed() < FAULTS {
        std::thread::sleep(Duration::from_secs(1));
        let chosen = usize::try_from(draw.below(PROCESSES as u64)).unwrap();
        let again = start(&mut draw);
        std::mem::replace(&mut processes[chosen], again).kill();
    }
    let last_fault = Instant::now();
    processes.into_iter().for_each(Walkers::finish);
    let finished = last_fault.elapsed();
    assert!(finished < Duration::from_secs(30), "the last waiter finished {finished:?} after the last fault");
    let history = history_of(folder.path()).and(all_is_to_be_had(folder.path(), &mut draw));
    let rules = |kind: Kind| Rules::permits(kind.capacity()).lingering(LINGERS);
    for (lock, kind) in LOCKS {
        let checking = Instant::now();
        let summary = history.check(lock, &rules(kind)).unwrap_or_else(|violation| panic!("{violation}. {seed}"));
        eprintln!("{lock}: {summary:?}, checked in {:?}, finished after {finished:?}", checking.elapsed());
        assert!(summary.grants > 500 && summary.unknown > 0 && summary.lost > 0, "{summary:?}");
    }
}

/// A process that takes the locks until it is killed or told to finish.
struct Walkers(Child);

impl Walkers {
    fn start(folder: &Path, life: usize, seed: u64) -> Self {
        let name = "kills::histories_of_processes_that_are_killed_pass_and_nothing_is_left_of_them";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(WALKERS, format!("{life} {seed} {}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Nobody begins anything new, and those who wait go on waiting until they have had the lock.
    fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

async fn keeper(folder: &Path) -> Keeper {
    let store = FileStore::new(folder.join("locks.db")).open().await.unwrap();
    Keeper::builder(store).ttl(TTL).connect().await.unwrap()
}

/// The process's side.
async fn walk(told: &str) {
    let words: Vec<&str> = told.splitn(3, ' ').collect();
    let [life, seed, folder] = words[..] else { panic!("what is {told:?}?") };
    let folder = PathBuf::from(folder);
    let mut draw = Seeded::new(seed.parse().unwrap());
    let recorder = Recorder::to_file(Clock::boot(), life, &folder.join(format!("{life}.history"))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let told_to_stop = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told_to_stop.store(true, Ordering::SeqCst);
    });
    let keeper = keeper(&folder).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let mut walkers = LOCKS.map(|lock| walker(&keeper, &recorder, lock, format!("{life}.{task}"), &mut draw));
        let (mut draw, stop) = (Seeded::new(draw.number()), Arc::clone(&stop));
        tasks.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                walkers[usize::from(draw.happens(500))].round().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    keeper.shutdown(Duration::from_secs(10)).await.unwrap();
}

fn walker(
    keeper: &Keeper,
    recorder: &Recorder,
    (lock, kind): (&str, Kind),
    client: String,
    draw: &mut Seeded,
) -> Walker {
    let contestant = LibraryClient::new(keeper, &lock.parse().unwrap(), kind);
    Walker {
        contestant: Arc::new(contestant) as Arc<dyn Contestant>,
        recorder: recorder.clone(),
        clock: Clock::boot(),
        seed: Seeded::new(draw.number()),
        client,
        owner: draw.number(),
        lock: lock.to_owned(),
        kind,
        habits: Habits { plain: false, careless: true, sure: false, pause: Duration::from_millis(10) },
    }
}

/// What every process wrote down in each of its lives.
fn history_of(folder: &Path) -> History {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let histories = files.filter(|path| path.extension().is_some_and(|extension| extension == "history"));
    histories
        .map(|path| History::read(BufReader::new(File::open(path).unwrap())).unwrap())
        .fold(History::default(), History::and)
}

/// One claim of all there is, of each lock, is granted at once. A refusal would be a violation of the history.
fn all_is_to_be_had(folder: &Path, draw: &mut Seeded) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (recorder, keeper) = (Recorder::new(Clock::boot(), "last"), keeper(folder).await);
        for lock in LOCKS {
            let mut last = walker(&keeper, &recorder, lock, "who comes last".to_owned(), draw);
            assert!(last.ask_for_all().await, "{lock:?} is not free");
        }
        recorder.history()
    })
}
