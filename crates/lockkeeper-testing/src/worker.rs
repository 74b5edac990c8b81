//! A process that runs commands on locks, and that a test can stop and kill.
//!
//! The process is the test's own program, started again for one test. There the program reads
//! commands from its standard input instead of testing. [`Worker::here`] distinguishes the two
//! cases, and [`work`] reads the commands.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use lockkeeper::{Guard, Keeper};

/// The variable with the store of a worker.
const STORE: &str = "LOCKKEEPER_TEST_WORKER_STORE";

/// The parent's side of a worker. Dropping it kills the process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// The store of this process, if the process was started as a worker.
    pub fn here() -> Option<String> {
        std::env::var(STORE).ok()
    }

    /// Starts a process for this test. The test has to call [`here`](Self::here) first of all.
    pub fn start(test: &str, store: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, commands, answers }
    }

    /// Sends a command, without waiting for the answer.
    pub fn send(&mut self, command: &str) {
        writeln!(self.commands.as_mut().expect("it has not ended"), "{command}").expect("it reads");
    }

    /// Waits for the next answer.
    pub fn answer(&mut self) -> String {
        loop {
            let line =
                self.answers.next().expect("the worker ended without an answer").expect("a text");
            // The test runner of the worker prints lines of its own, and may leave its first line
            // without an end.
            if let Some((_, answer)) = line.split_once('@') {
                return answer.to_owned();
            }
        }
    }

    /// Sends a command, and returns the answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Acquires a lock that must be free, and returns its token.
    pub fn lock(&mut self, name: &str, ttl: Duration) -> u64 {
        let answer = self.ask(&format!("lock {name} {}", ttl.as_millis()));
        answer.strip_prefix("locked ").expect("it is free").parse().expect("a token")
    }

    /// Stops the process (SIGSTOP), and waits until it has stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        let stands = || {
            let stat = std::fs::read_to_string(&stat).expect("it lives");
            stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
        };
        while !stands() {
            std::thread::yield_now();
        }
    }

    /// Lets the process go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("it was not waited for");
        self.child.wait().expect("it ends");
    }

    /// Ends the input of the process, and waits until it has exited.
    pub fn end(mut self) -> ExitStatus {
        drop(self.commands.take());
        self.child.wait().expect("it ends")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker's side: answers every command, given as its words, until the input ends.
pub async fn work(mut answer: impl AsyncFnMut(&[&str]) -> String) {
    for command in std::io::stdin().lines() {
        let command = command.expect("a text");
        let words: Vec<&str> = command.split(' ').collect();
        let answer = answer(&words).await;
        // One write keeps the runner's own output out of the answer.
        std::io::stdout().write_all(format!("@{answer}\n").as_bytes()).expect("somebody reads");
    }
}

/// The commands of every worker on one lock.
#[derive(Debug)]
pub struct Hand {
    keeper: Keeper,
    /// The guard of the held lock.
    pub guard: Option<Guard>,
}

impl Hand {
    /// A hand without a guard.
    pub fn new(keeper: Keeper) -> Self {
        Self { keeper, guard: None }
    }

    /// Runs `lock NAME TTL [DELAY]`, with both times in ms, or `check` or `release`. `None` for any
    /// other command.
    pub async fn does(&mut self, words: &[&str]) -> Option<String> {
        match *words {
            ["lock", name, ttl] => Some(self.lock(name, ttl, "0").await),
            ["lock", name, ttl, delay] => Some(self.lock(name, ttl, delay).await),
            ["check"] => Some(match self.guard.as_ref().expect("it holds a lock").check() {
                Ok(()) => "held".to_owned(),
                Err(error) => {
                    format!("lost: {:?}", error.lost_reason().expect("a lock that is lost"))
                }
            }),
            ["release"] => {
                let released = self.guard.take().expect("it holds a lock").release().await;
                Some(
                    released.map_or_else(
                        |error| format!("{:?}", error.kind()),
                        |()| "released".to_owned(),
                    ),
                )
            }
            _ => None,
        }
    }

    async fn lock(&mut self, name: &str, ttl: &str, delay: &str) -> String {
        let mutex =
            self.keeper.mutex(name).expect("a name").ttl(millis(ttl)).lock_delay(millis(delay));
        let guard = mutex.lock().await.expect("the store answers");
        let token = guard.token();
        self.guard = Some(guard);
        format!("locked {token}")
    }
}

/// Reads a number of milliseconds from a command.
pub fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}
