//! A process of its own that does with locks what it is told, and can be stopped and killed.
//!
//! The test binary starts itself again with one test, `worker::a_worker_does_as_it_is_told`, which then reads commands
//! from its standard input instead of testing.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use lockkeeper::optimistic::{FileRegister, update};
use lockkeeper::{FileStore, Guard, Keeper};
use rustix::process::{Pid, Signal, kill_process};

const STORE: &str = "LOCKKEEPER_TEST_WORKER_STORE";

/// The parent's side.
pub(crate) struct Worker {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// A worker on the file store at this path.
    pub(crate) fn start(store: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::a_worker_does_as_it_is_told", "--nocapture", "--test-threads=1"])
            .env(STORE, store)
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

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it and waits until it stands.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        while std::fs::read_to_string(&stat).unwrap().rsplit(") ").next().is_none_or(|state| !state.starts_with('T')) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it come to its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.commands);
        self.child.wait().unwrap()
    }
}

#[test]
fn a_worker_does_as_it_is_told() {
    if let Ok(store) = std::env::var(STORE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(work(&store));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(&folder.path().join("locks.db"));
    assert!(worker.ask("lock n 5000 0").starts_with("locked "));
    assert_eq!(worker.ask("check"), "held");
    assert_eq!(worker.ask("release"), "Done");
    assert!(worker.end().success());
}

/// The worker's side.
async fn work(store: &str) {
    let store = FileStore::new(store).open().await.unwrap();
    let register = store.register();
    let keeper = Keeper::builder(store).owner("worker").connect().await.unwrap();
    let mut guard: Option<Guard> = None;
    for command in std::io::stdin().lines() {
        let command = command.unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        let answer = match words[..] {
            ["lock", name, ttl, delay] => {
                let mutex = keeper.mutex(name).unwrap().ttl(millis(ttl)).lock_delay(millis(delay));
                let locked = mutex.lock().await.unwrap();
                let token = locked.token();
                guard = Some(locked);
                format!("locked {token}")
            }
            ["add", key, times] => {
                for _ in 0..times.parse::<u32>().unwrap() {
                    add_one(&register, key).await;
                }
                "added".to_owned()
            }
            ["check"] => match guard.as_ref().unwrap().check() {
                Ok(()) => "held".to_owned(),
                Err(error) => format!("lost: {:?}", error.lost_reason().unwrap()),
            },
            ["wait-lost"] => format!("lost: {:?}", guard.as_ref().unwrap().lost().await),
            ["detach", name, life] => {
                let handle = keeper.mutex(name).unwrap().lock().detached(millis(life)).await.unwrap();
                handle.expose()
            }
            ["renew", handle] => match keeper.adopt(handle.parse().unwrap()).unwrap().renew_once().await {
                Ok(()) => "held".to_owned(),
                Err(error) => format!("{:?}", error.kind()),
            },
            ["release", handle] => {
                format!("{:?}", keeper.adopt(handle.parse().unwrap()).unwrap().release().await.unwrap())
            }
            // Lets the engine work for so long.
            ["idle", time] => {
                tokio::time::sleep(millis(time)).await;
                "idle".to_owned()
            }
            ["release"] => format!("{:?}", guard.take().unwrap().release().await.unwrap()),
            ["fork"] => format!("child says {}", in_a_forked_child(guard.take().unwrap())),
            _ => panic!("what is {command:?}?"),
        };
        // In one write, so that the runner's own output does not come between.
        std::io::stdout().write_all(format!("@{answer}\n").as_bytes()).unwrap();
    }
    drop(guard);
    keeper.shutdown(Duration::from_secs(10)).await.unwrap();
}

async fn add_one(register: &FileRegister, key: &str) {
    let number = |old: Option<Vec<u8>>| old.map_or(0, |text| String::from_utf8(text).unwrap().parse::<u64>().unwrap());
    update(register, key, async |old| (number(old) + 1).to_string().into_bytes()).await.unwrap();
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// What a forked child sees of the guard, which it then drops. The guard stays alive in this process.
#[allow(unsafe_code, reason = "to fork is unsafe; the child does nothing but look at the guard and end")]
fn in_a_forked_child(guard: Guard) -> String {
    let guard = std::mem::ManuallyDrop::new(guard);
    // SAFETY: between fork and _exit the child takes no lock that another thread may have held: check, remaining and
    // drop of a guard are what is tested to do just that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let lost = guard.check().is_err_and(|e| e.lost_reason() == Some(&lockkeeper::LostReason::Forked));
        let code = i32::from(lost && guard.remaining().is_zero());
        drop(std::mem::ManuallyDrop::into_inner(guard));
        // SAFETY: ends the child at once, without running anything of the parent's.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child was ended by a signal");
    match (libc::WEXITSTATUS(status), guard.check().is_ok()) {
        (1, true) => "lost, parent holds".to_owned(),
        other => format!("{other:?}"),
    }
}
