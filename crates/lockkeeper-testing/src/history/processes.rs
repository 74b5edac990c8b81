//! Processes that acquire locks at random and are killed, for a test on a real store.
//!
//! The processes are the test's own program, started again for the same test: [`TestProcess::here`]
//! distinguishes the two cases. Each process records each operation as it happens, so the history
//! of a killed process is complete too.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{
    Contestant, Habits, History, Kind, LibraryClient, Recorder, Rules, Seed, Summary, Walker,
};
use crate::Seeded;
use lockkeeper::Keeper;
use lockkeeper::time::Clock;

/// The variable with the number, the seed and the folder of a process.
const ORDERS: &str = "LOCKKEEPER_TEST_PROCESS";
/// How long a process that has to finish waits for its releases.
const FAREWELL: Duration = Duration::from_secs(10);
/// How long all waiters together may take after the last kill.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest pause of a task, while it holds a lock and in between.
const PAUSE: Duration = Duration::from_millis(10);

/// A process that acquires locks until it is killed or has to finish, as the process sees it.
#[derive(Debug)]
pub struct TestProcess {
    number: u64,
    seed: u64,
    /// The folder with the history of the process, and with the files that its test has put there.
    pub folder: PathBuf,
}

/// The same process, as the test sees it. Dropping it kills the process.
#[derive(Debug)]
pub struct RunningProcess(Child);

impl TestProcess {
    /// The number, the seed and the folder of this process, if it was started as one of these
    /// processes.
    pub fn here() -> Option<Self> {
        let reported = std::env::var(ORDERS).ok()?;
        let mut words = reported.splitn(3, ' ');
        let mut word = || words.next().expect("a number, a seed, a folder");
        let (number, seed) = (word().parse().expect("a number"), word().parse().expect("a seed"));
        Some(Self { number, seed, folder: word().into() })
    }

    /// Starts a process for this test. The test has to call [`here`](Self::here) first of all.
    pub fn start(test: &str, folder: &Path, number: u64, seed: u64) -> RunningProcess {
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ORDERS, format!("{number} {seed} {}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        RunningProcess(child)
    }

    /// Acquires these locks at random with this number of tasks, until the process has to finish.
    pub async fn walk(self, keeper: Keeper, locks: &[(&str, Kind)], tasks: u64) {
        let library = |lock: &str, kind| library(&keeper, lock, kind);
        self.walk_as(locks, tasks, PAUSE, library).await;
        keeper.shutdown(FAREWELL).await.expect("all is released");
    }

    /// Like [`walk`](Self::walk), with contestants of the test, one for each task and lock. `pause`
    /// is the longest pause of a task, while it holds a lock and in between.
    pub async fn walk_as(
        &self,
        locks: &[(&str, Kind)],
        tasks: u64,
        pause: Duration,
        contestant: impl Fn(&str, Kind) -> Arc<dyn Contestant>,
    ) {
        let mut draw = Seeded::new(self.seed);
        let history = self.folder.join(format!("{}.history", self.number));
        let recorder =
            Recorder::to_file(Clock::boot(), &self.number.to_string(), &history).expect("a file");
        let stop = stops_at_term();
        let mut walking = tokio::task::JoinSet::new();
        for task in 0..tasks {
            let client = format!("{}.{task}", self.number);
            let new = |(lock, kind): &(&str, Kind)| {
                let walker = walker(
                    contestant(lock, *kind),
                    &recorder,
                    (lock, *kind),
                    client.clone(),
                    &mut draw,
                );
                Walker { habits: Habits { pause, ..walker.habits }, ..walker }
            };
            let mut walkers: Vec<_> = locks.iter().map(new).collect();
            let (mut draw, stop) = (Seeded::new(draw.number()), Arc::clone(&stop));
            walking.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let next = draw.below(walkers.len() as u64);
                    walkers[usize::try_from(next).expect("a few locks")].round().await;
                }
            });
        }
        while let Some(ended) = walking.join_next().await {
            ended.expect("no task panics");
        }
    }

    /// The number of this process among the processes of the test.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl RunningProcess {
    /// The id that the system gave the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }

    /// Lets the process finish: its tasks begin no further round, and its waiters wait until they
    /// have had the lock.
    pub fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("it ends").success(), "a process failed: see its output");
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // The process has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long a test makes faults: `long` under `cargo xtask test --all`, and `short` otherwise.
pub fn lasting(short: Duration, long: Duration) -> Duration {
    if std::env::var_os("LOCKKEEPER_ALL").is_some() { long } else { short }
}

/// How long a test waits for enough grants.
const GRANTS_WITHIN: Duration = Duration::from_secs(180);

/// Whether one of the locks has fewer than `enough` grants, and the test that `began` then still
/// waits for more.
pub fn lacks_grants(
    folder: &Path,
    (locks, enough): (&[(&str, Kind)], usize),
    began: Instant,
) -> bool {
    let history = recorded(folder).expect("the histories of its processes");
    began.elapsed() < GRANTS_WITHIN && locks.iter().any(|(lock, _)| history.grants(lock) < enough)
}

/// Processes that are killed one after another. A new process follows each killed one.
#[derive(Debug)]
pub struct Kills<'a> {
    /// The test that each process is started for, which has to call [`TestProcess::here`] first of
    /// all.
    pub test: &'a str,
    /// The folder with the histories of the processes.
    pub folder: &'a Path,
    /// The number of processes that run at a time.
    pub processes: usize,
    /// How long the kills go on. Then all processes have to finish.
    pub faults: Duration,
    /// The number of grants that each lock must have. The kills go on until then too, since a busy
    /// machine takes longer, but for three minutes at most.
    pub grants: (&'a [(&'a str, Kind)], usize),
}

impl Kills<'_> {
    /// Kills one process after each pause. `draw` chooses the process.
    ///
    /// Returns the history of all processes. Every waiter must have had its lock within 30 s after
    /// the last kill.
    pub fn play(&self, draw: &mut Seeded, pause: impl Fn(&mut Seeded) -> Duration) -> History {
        let mut started = 0;
        let mut start = |draw: &mut Seeded| {
            started += 1;
            TestProcess::start(self.test, self.folder, started, draw.number())
        };
        let mut processes: Vec<RunningProcess> = (0..self.processes).map(|_| start(draw)).collect();
        let began = Instant::now();
        while began.elapsed() < self.faults || lacks_grants(self.folder, self.grants, began) {
            std::thread::sleep(pause(draw));
            let chosen =
                usize::try_from(draw.below(self.processes as u64)).expect("a few processes");
            let again = start(draw);
            std::mem::replace(&mut processes[chosen], again).kill();
        }
        let last_fault = Instant::now();
        processes.into_iter().for_each(RunningProcess::finish);
        let finished = last_fault.elapsed();
        assert!(
            finished < TIME_LIMIT,
            "the last waiter finished {finished:?} after the last fault"
        );
        eprintln!(
            "{started} processes, the last waiter finished {finished:?} after the last fault"
        );
        recorded(self.folder).expect("their histories")
    }
}

/// Checks the history of each lock. A lock of a killed process may stay held for `lingers` after
/// the last entry of that process.
///
/// # Panics
/// When a history cannot be explained. The message has the seed.
pub fn checked(
    history: &History,
    locks: &[(&str, Kind)],
    lingers: Duration,
    seed: Seed,
) -> Vec<Summary> {
    let summary = |(lock, kind): &(&str, Kind)| {
        let (rules, checking) =
            (Rules::permits(kind.capacity()).lingering(lingers), Instant::now());
        let summary =
            history.check(lock, &rules).unwrap_or_else(|violation| panic!("{violation}. {seed}"));
        eprintln!("{lock}: {summary:?}, checked in {:?}", checking.elapsed());
        summary
    };
    locks.iter().map(summary).collect()
}

/// Reads the histories of all processes in this folder.
pub fn recorded(folder: &Path) -> io::Result<History> {
    let mut all = History::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "history") {
            all = all.and(History::read(BufReader::new(File::open(path)?))?);
        }
    }
    Ok(all)
}

/// Asserts that one claim can acquire the whole capacity of each lock at once. A refusal would be a
/// violation in the returned history.
pub async fn all_is_to_be_had(
    keeper: &Keeper,
    locks: &[(&str, Kind)],
    draw: &mut Seeded,
) -> History {
    let recorder = Recorder::new(Clock::boot(), "last");
    for lock in locks {
        let client = library(keeper, lock.0, lock.1);
        let mut last = walker(client, &recorder, *lock, "who comes last".to_owned(), draw);
        assert!(last.ask_for_all().await, "{lock:?} is not free");
    }
    recorder.history()
}

fn stops_at_term() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let reported = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        reported.store(true, Ordering::SeqCst);
    });
    stop
}

fn library(keeper: &Keeper, lock: &str, kind: Kind) -> Arc<dyn Contestant> {
    Arc::new(LibraryClient::new(keeper, &lock.parse().expect("the name of a lock"), kind))
}

fn walker(
    contestant: Arc<dyn Contestant>,
    recorder: &Recorder,
    (lock, kind): (&str, Kind),
    client: String,
    draw: &mut Seeded,
) -> Walker {
    Walker {
        contestant,
        recorder: recorder.clone(),
        clock: Clock::boot(),
        seed: Seeded::new(draw.number()),
        client,
        owner: draw.number(),
        lock: lock.to_owned(),
        kind,
        habits: Habits { plain: false, careless: true, sure: false, pause: PAUSE },
    }
}
