//! Starts the program on any store and watches it. Nothing sleeps for a guessed time; every wait
//! has a limit.
//!
//! The tests of other crates use this file too, with their own program and their own stores.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use tempfile::TempDir;

use super::binary;

#[path = "schema.rs"]
pub(crate) mod schema;

/// No test waits longer for anything. Far more than is ever needed, since machines are slow.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The program, without the environment of the tests and the configuration of the machine.
pub(crate) fn program() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOCKKEEPER_"))
    {
        command.env_remove(name);
    }
    command.env("LOCKKEEPER_CONFIG", "/dev/null").stdin(Stdio::null());
    command
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The exit code as a shell shows it: 128 + n for an end by signal n.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A store, and a directory for its users.
pub(crate) struct Client {
    url: String,
    dir: TempDir,
}

impl Client {
    pub(crate) fn new(url: &str, dir: TempDir) -> Self {
        Self { url: url.to_owned(), dir }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// A file beside the store, for a test's own use.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `lockkeeper -S URL ARGS`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.arg("-S").arg(&self.url).args(args).current_dir(self.dir.path());
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The exit code of the program.
    pub(crate) fn code(&self, args: &[&str]) -> i32 {
        code_of(self.output(args).status)
    }

    /// Starts the program with pipes.
    pub(crate) fn start(&self, args: &[&str]) -> Process {
        Process::start(&mut self.command(args))
    }

    /// Holds the lock until the process is [finished](Process::finish).
    pub(crate) fn hold(&self, name: &str) -> Process {
        let mut holder = self.start(&["run", name, "--json", "--", "cat"]);
        holder.event("started");
        holder
    }

    /// Waits in the queue behind this number of others.
    pub(crate) fn queue(&self, args: &[&str], name: &str, others: usize) -> Process {
        let waiter = self.start(args);
        self.inspect_until(name, |lock| waiters(lock) == others + 1);
        waiter
    }

    pub(crate) fn inspect(&self, name: &str) -> Value {
        let output = self.output(&["inspect", "--json", name]);
        let lock =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        schema::check("lock", &lock);
        lock
    }

    pub(crate) fn inspect_until(&self, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        eventually(&format!("the lock {name:?}"), || {
            seen = self.inspect(name);
            good(&seen)
        });
        seen
    }
}

/// A terminal, of which the program gets one side.
pub(crate) struct Terminal {
    ours: File,
    side: File,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap();
        let side = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
        Self { ours: ours.into(), side }
    }

    pub(crate) fn side(&self) -> File {
        self.side.try_clone().unwrap()
    }

    /// Types a line.
    pub(crate) fn type_line(&self, text: &str) {
        (&self.ours).write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    /// The whole screen, once the programs on it have ended.
    pub(crate) fn screen(self) -> String {
        let Self { mut ours, side } = self;
        drop(side);
        let mut bytes = Vec::new();
        // The read ends with EIO when no process has the other side any more.
        let _ = ours.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn waiters(lock: &Value) -> usize {
    lock["waiters"].as_array().unwrap().len()
}

/// Polls until the condition is true: the condition raises no event.
pub(crate) fn eventually(what: &str, mut good: impl FnMut() -> bool) {
    let start = Instant::now();
    while !good() {
        assert!(start.elapsed() < LIMIT, "{what} did not become what was expected");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running program, with its output as it comes.
pub(crate) struct Process {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    pub(crate) seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child, out, err, seen: Vec::new() }
    }

    /// The next line on stdout.
    pub(crate) fn line(&self) -> String {
        self.out.recv_timeout(LIMIT).unwrap()
    }

    /// The next line on stderr.
    pub(crate) fn error_line(&self) -> String {
        self.err.recv_timeout(LIMIT).unwrap()
    }

    /// The next event of this name on stderr; earlier events are in `seen`.
    pub(crate) fn event(&mut self, name: &str) -> Value {
        loop {
            let line = self
                .err
                .recv_timeout(LIMIT)
                .unwrap_or_else(|e| panic!("no {name}: {e}; seen {:#?}", self.seen));
            let event = serde_json::from_str::<Value>(&line).ok().inspect(schema::check_event);
            let event = event.filter(|event| event["event"] == name);
            self.seen.push(line);
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Whether the command started; `false` if the program ended before.
    pub(crate) fn wait_for_start(&mut self) -> bool {
        while let Ok(line) = self.err.recv_timeout(LIMIT) {
            if line.contains("\"started\"") {
                return true;
            }
        }
        false
    }

    /// All lines on stdout that were not read yet, once the program has ended.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.out.iter().collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// The exit code, after stdin was closed.
    pub(crate) fn finish(&mut self) -> i32 {
        self.close_stdin();
        code_of(self.wait())
    }

    /// The rest of stderr, up to the end of the program.
    pub(crate) fn rest(&mut self) -> String {
        let rest: Vec<String> = self.err.iter().collect();
        self.seen.extend(rest.clone());
        rest.join("\n")
    }

    /// The names of all events, once the program has ended.
    pub(crate) fn events(&mut self) -> Vec<String> {
        self.rest();
        event_names(&self.seen.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The events in a text that may hold other lines too.
pub(crate) fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .inspect(schema::check_event)
        .collect()
}

pub(crate) fn event_names(text: &str) -> Vec<String> {
    events(text).iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

/// A script that can be executed, and so is not written by ourselves either.
pub(crate) fn script(path: &Path, text: &str) {
    let write = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let written =
        Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(text).status().unwrap();
    assert!(written.success());
}

pub(crate) fn is_alive(pid: &str) -> bool {
    // A zombie counts as dead; only its parent can remove it.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z") && !stat.contains(") X"))
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// The ids of all processes, and the other names in `/proc`.
pub(crate) fn processes() -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .collect()
}

/// The children of this process.
pub(crate) fn children(parent: u32) -> Vec<String> {
    let is_child = |pid: &String| {
        let stat = text(format!("/proc/{pid}/stat"));
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1))
            == Some(&parent.to_string())
    };
    processes().into_iter().filter(is_child).collect()
}

/// The guard process of a run.
pub(crate) fn guard(run: &Process) -> String {
    let mut found = None;
    eventually("the guard", || {
        let is_guard =
            |pid: &String| text(format!("/proc/{pid}/cmdline")).starts_with("lockkeeper-guard");
        found = children(run.pid()).into_iter().find(is_guard);
        found.is_some()
    });
    found.unwrap()
}

/// Waits until a process is reaped: it is not even a zombie any more.
pub(crate) fn reaped(pid: &str) {
    eventually("the end of the command", || !Path::new("/proc").join(pid).exists());
}

/// Waits until the process has a handler for the signal.
pub(crate) fn catches(pid: &str, signal: Signal) {
    eventually("the handler", || {
        let status = text(format!("/proc/{pid}/status"));
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
    });
}

/// Whether the tests were started with this signal ignored, which programs inherit.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = text("/proc/self/status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

pub(crate) fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn sh<'a>(before: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [before, &["--", "sh", "-c", script]].concat()
}

pub(crate) fn os(text: &str) -> &OsStr {
    OsStr::new(text)
}
