//! A process of its own that does with locks on a server what it is told, and can be stopped and killed.
//!
//! The test binary starts itself again with one test, `worker::a_worker_does_as_it_is_told`, which then reads commands
//! from its standard input instead of testing.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use ::redis::{Client, Connection};
use lockkeeper::fence::redis::{Answer, FencedKey};
use lockkeeper::{Guard, Keeper};
use lockkeeper_live::redis;
use rustix::process::{Pid, Signal, kill_process};

use crate::fences;

const STORE: &str = "LOCKKEEPER_LIVE_WORKER_STORE";

/// The parent's side. Dropped, it is killed.
pub(crate) struct Worker {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// A worker on the store of this URL.
    pub(crate) fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::a_worker_does_as_it_is_told", "--nocapture", "--test-threads=1"])
            .env(STORE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, commands, answers }
    }

    /// Tells it to do something, without waiting for the answer.
    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> String {
        loop {
            let line = self.answers.next().expect("the worker ended without an answer").unwrap();
            // The test runner of the worker prints lines of its own, and may leave the first one open.
            if let Some((_, answer)) = line.split_once('@') {
                return answer.to_owned();
            }
        }
    }

    /// Tells it to do something, and returns what it says.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    /// Takes a lock that is free, and returns its token.
    pub(crate) fn lock(&mut self, name: &str, ttl: Duration) -> u64 {
        let answer = self.ask(&format!("lock {name} {}", ttl.as_millis()));
        answer.strip_prefix("locked ").unwrap().parse().unwrap()
    }

    /// Stops it and waits until it stands.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        while std::fs::read_to_string(&stat).unwrap().rsplit(") ").next().is_none_or(|state| !state.starts_with('T')) {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // With SIGKILL, which does not fail for a child that was not waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_worker_does_as_it_is_told() {
    if let Ok(url) = std::env::var(STORE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(work(&url));
    }
    let mut worker = Worker::start(&redis().unwrap().url());
    assert!(worker.lock(&crate::faults::name(), Duration::from_secs(5)) > 0);
    assert_eq!(worker.ask("check"), "held");
    assert_eq!(worker.ask("release"), "Done");
}

/// The worker's side.
async fn work(url: &str) {
    let keeper = Keeper::from_url(url).unwrap().owner("worker").connect().await.unwrap();
    let mut guard: Option<Guard> = None;
    let mut data: Option<Connection> = None;
    for command in std::io::stdin().lines() {
        let command = command.unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        let answer = match words[..] {
            ["lock", name, ttl] => {
                let ttl = Duration::from_millis(ttl.parse().unwrap());
                let locked = keeper.mutex(name).unwrap().ttl(ttl).lock().await.unwrap();
                let token = locked.token();
                guard = Some(locked);
                format!("locked {token}")
            }
            ["check"] => match guard.as_ref().unwrap().check() {
                Ok(()) => "held".to_owned(),
                Err(error) => format!("lost: {:?}", error.lost_reason().unwrap()),
            },
            ["write", key, value] => {
                let holder = guard.as_ref().unwrap().sequencer();
                let call = FencedKey::new(key).unwrap().write(&holder, &["SET", value]).unwrap();
                match fences::send(data.get_or_insert_with(|| open(url)), &call).0 {
                    Answer::Stale { seen } => format!("stale, seen {seen}"),
                    _ => "written".to_owned(),
                }
            }
            ["release"] => format!("{:?}", guard.take().unwrap().release().await.unwrap()),
            _ => panic!("what is {command:?}?"),
        };
        // In one write, so that the runner's own output does not come between.
        std::io::stdout().write_all(format!("@{answer}\n").as_bytes()).unwrap();
    }
}

/// A plain client for the data.
fn open(url: &str) -> Connection {
    Client::open(url).unwrap().get_connection().unwrap()
}
