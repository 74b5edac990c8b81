//! The common parts of all storms: processes, rounds, and the checks after each round.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::processes::{RunningProcess, TestProcess, checked, recorded};
use lockkeeper_testing::history::{Contestant, Kind, LibraryClient, Seed};
use rustix::process::{Pid, Signal, kill_process};

use crate::witness::{Witnessed, violations};

/// How long a storm lasts, in seconds: `cargo xtask storm` sets it.
const SECONDS: &str = "LOCKKEEPER_STORM_SECONDS";
/// The default.
const IN_CI: Duration = Duration::from_secs(20);
/// After this time new processes start, the locks get other names, and the history is checked.
const ROUND: Duration = Duration::from_secs(20);
/// How many locks there are.
const LOCKS: usize = 24;
/// How many processes there are at a time.
pub(crate) const PROCESSES: u64 = 4;
/// How long the waiters at the end of the faults may take.
const TIME_LIMIT: Duration = Duration::from_secs(90);
/// Where the processes find the store.
const URL: &str = "store.url";
/// Where the processes find the names of the locks.
const NAMES: &str = "locks";

/// The description of a storm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    /// The test that starts in each process. It first calls [`Storm::is_played_here`].
    pub(crate) test: &'static str,
    /// How many tasks a process has.
    pub(crate) tasks: u64,
    /// The longest pause of a task.
    pub(crate) pause: Duration,
    /// How long a lock lasts without a renewal.
    pub(crate) ttl: Duration,
    /// How long a lock may stay with a killed process.
    pub(crate) lingers: Duration,
    /// How long the storm lasts at most.
    pub(crate) at_most: Duration,
}

/// Additional behaviour of a contestant.
pub(crate) type Dress = fn(Arc<dyn Contestant>, &TestProcess, &str) -> Arc<dyn Contestant>;

/// The processes of a round.
pub(crate) struct Round<'a> {
    storm: &'a Storm,
    folder: &'a Path,
    running: Vec<RunningProcess>,
    started: u64,
    ends: Instant,
}

impl Storm {
    /// Returns whether this process is part of the storm; if so, it has done its part.
    pub(crate) fn is_played_here(&self, dress: Dress) -> bool {
        let Some(process) = TestProcess::here() else { return false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.live(&process, dress));
        true
    }

    async fn live(&self, process: &TestProcess, dress: Dress) {
        let url = fs::read_to_string(process.folder.join(URL)).unwrap();
        let names = fs::read_to_string(process.folder.join(NAMES)).unwrap();
        let locks: Vec<_> = names.lines().map(|name| (name, Kind::Mutex)).collect();
        let keeper = keeper(&url, self.ttl).await;
        let contestant = |lock: &str, kind| {
            let inner = Arc::new(LibraryClient::new(&keeper, &lock.parse().unwrap(), kind));
            let (folder, lock) = (process.folder.clone(), lock.to_owned());
            let inner = dress(inner, process, &lock);
            Arc::new(Witnessed { inner, folder, lock }) as Arc<dyn Contestant>
        };
        process.walk_as(&locks, self.tasks, self.pause, contestant).await;
        keeper.shutdown(TIME_LIMIT).await.unwrap();
    }

    /// Runs the storm in rounds until its time is over. Each round has a folder with these `files`;
    /// `fault` runs again and again; `judge` checks the files of a round.
    ///
    /// # Panics
    /// When a process fails, and when `judge` does.
    pub(crate) fn play(
        &self,
        url: &str,
        files: &[(&str, String)],
        mut fault: impl FnMut(&mut Round<'_>, &mut Seeded),
        mut judge: impl FnMut(&Self, &Path, &[(&str, Kind)], Seed),
    ) {
        let seed = Seed::several(1).next().unwrap();
        let mut draw = Seeded::new(seed.number());
        let (began, lasts, mut rounds) = (Instant::now(), duration().min(self.at_most), 0);
        while began.elapsed() < lasts {
            rounds += 1;
            let folder = tempfile::tempdir().unwrap();
            let names: Vec<_> = (1..=LOCKS).map(|lock| format!("r{rounds}/l{lock}")).collect();
            fs::write(folder.path().join(URL), url).unwrap();
            fs::write(folder.path().join(NAMES), names.join("\n")).unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let ends = Instant::now() + ROUND.min(lasts.saturating_sub(began.elapsed()));
            let mut round =
                Round { storm: self, folder: folder.path(), running: Vec::new(), started: 0, ends };
            (0..PROCESSES).for_each(|_| round.start(&mut draw));
            while Instant::now() < ends {
                fault(&mut round, &mut draw);
            }
            round.finish(seed);
            let locks: Vec<_> = names.iter().map(|name| (name.as_str(), Kind::Mutex)).collect();
            judge(self, folder.path(), &locks, seed);
        }
    }

    /// Two holders at once, seen by the witness or by the history, and tokens that do not rise.
    pub(crate) fn nobody_beside_another(&self, folder: &Path, locks: &[(&str, Kind)], seed: Seed) {
        let violations = violations(folder);
        assert!(
            violations.is_empty(),
            "the witness saw what may not be. {seed}\n{}",
            violations.join("\n")
        );
        let history = recorded(folder).unwrap();
        let grants: usize =
            checked(&history, locks, self.lingers, seed).iter().map(|summary| summary.grants).sum();
        assert!(grants > 10, "only {grants} grants");
        eprintln!("{grants} grants");
    }
}

impl Round<'_> {
    fn start(&mut self, draw: &mut Seeded) {
        self.started += 1;
        self.running.push(TestProcess::start(
            self.storm.test,
            self.folder,
            self.started,
            draw.number(),
        ));
    }

    /// Kills a process, and starts another one.
    pub(crate) fn kill_one(&mut self, draw: &mut Seeded) {
        let chosen = usize::try_from(draw.below(self.running.len() as u64)).unwrap();
        self.running.remove(chosen).kill();
        self.start(draw);
    }

    /// Stops a process for this time.
    pub(crate) fn stop_one(&self, draw: &mut Seeded, time: Duration) {
        let chosen = usize::try_from(draw.below(self.running.len() as u64)).unwrap();
        // A child that is not reaped yet keeps its process id.
        let process = Pid::from_raw(self.running[chosen].id().try_into().unwrap()).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(time);
        kill_process(process, Signal::CONT).unwrap();
    }

    /// The folder of the processes' records.
    pub(crate) fn folder(&self) -> &Path {
        self.folder
    }

    /// How long the round goes on.
    pub(crate) fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// The names of the round's locks.
    pub(crate) fn names(&self) -> Vec<String> {
        fs::read_to_string(self.folder.join(NAMES)).unwrap().lines().map(str::to_owned).collect()
    }

    fn finish(self, seed: Seed) {
        let last_fault = Instant::now();
        self.running.into_iter().for_each(RunningProcess::finish);
        let took = last_fault.elapsed();
        assert!(
            took < TIME_LIMIT,
            "the last waiter finished {took:?} after the last fault. {seed}"
        );
        eprintln!(
            "{} processes, the last waiter finished {took:?} after the last fault",
            self.started
        );
    }
}

/// Contestants without additional behaviour.
pub(crate) fn plain(inner: Arc<dyn Contestant>, _: &TestProcess, _: &str) -> Arc<dyn Contestant> {
    inner
}

/// The servers may be failing just now.
async fn keeper(url: &str, ttl: Duration) -> Keeper {
    let began = Instant::now();
    loop {
        match Keeper::from_url(url).unwrap().ttl(ttl).connect().await {
            Ok(keeper) => return keeper,
            // A failing server causes only such errors.
            Err(error) => {
                assert!(
                    error.kind() == ErrorKind::Unavailable && began.elapsed() < TIME_LIMIT,
                    "{error:?}"
                );
            }
        }
    }
}

fn duration() -> Duration {
    let given = env::var(SECONDS).ok();
    given.map_or(IN_CI, |text| {
        Duration::from_secs(text.parse().expect("LOCKKEEPER_STORM_SECONDS is a number"))
    })
}
