//! A pseudo-terminal with an interactive shell, as a person has it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{LIMIT, Store, children, eventually, processes, text};

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_Z: &str = "\x1a";
pub(crate) const CTRL_BACKSLASH: &str = "\x1c";

/// A shell on a terminal of its own.
pub(crate) struct Shell {
    shell: Child,
    keys: File,
    screen: Receiver<String>,
    seen: String,
}

impl Shell {
    /// A bash with job control, in which `lockkeeper` is the program with this store.
    pub(crate) fn new(store: &Store) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let program =
            Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_str().unwrap();
        let mut command = Command::new("setsid");
        command.env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()));
        command.args(["--ctty", "bash", "--norc", "--noprofile", "-i"]).current_dir(store.path(""));
        command.env("PS1", "$ ").env("TERM", "dumb").env("LOCKKEEPER_STORE", store.url());
        command.env("LOCKKEEPER_CONFIG", "/dev/null");
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let shell = command
            .spawn()
            .unwrap_or_else(|e| panic!("this test needs setsid (util-linux) and bash: {e}"));
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        let mut shell = Self { shell, keys, screen, seen: String::new() };
        // Typed text is not echoed, so that it is not taken for an answer.
        shell.keys("stty -echo; echo rea''dy\n");
        shell.sees("ready");
        shell
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is on the screen, and forgets the screen up to the text.
    pub(crate) fn sees(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let more = self.screen.recv_timeout(LIMIT);
            self.seen +=
                &more.unwrap_or_else(|e| panic!("{text:?} was not seen: {e}; {:?}", self.seen));
        }
    }

    /// The process group that has the terminal.
    pub(crate) fn foreground(&self) -> u32 {
        let stat = text(format!("/proc/{}/stat", self.shell.id()));
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(5)).unwrap().parse().unwrap()
    }

    /// Waits until a command that asks for the terminal has it. The group of the command may have
    /// no leader.
    pub(crate) fn is_given_away(&self) {
        eventually("the command has the terminal", || {
            let foreground = self.foreground().to_string();
            let is_theirs = |pid: &String| {
                let stat = text(format!("/proc/{pid}/stat"));
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(2))
                    == Some(&foreground)
            };
            let runs = processes()
                .into_iter()
                .filter(|pid| text(format!("/proc/{pid}/cmdline")).starts_with("lockkeeper\0"));
            runs.flat_map(|run| children(run.parse().unwrap())).any(|child| is_theirs(&child))
        });
    }

    /// Types Ctrl-C, and waits until it has ended a program. Returns the screen until then.
    pub(crate) fn ctrl_c_ends_it(&mut self) -> String {
        self.keys(CTRL_C);
        self.code_is(130)
    }

    /// Waits for the end of the job in the foreground, and for its code. Returns the screen until
    /// then.
    pub(crate) fn code_is(&mut self, code: i32) -> String {
        eventually("the end of the job", || !self.has_given_the_terminal());
        // An interactive shell forgets the rest of an interrupted line, so this is a line of its
        // own.
        self.keys("echo co''de $?\n");
        self.sees(&format!("code {code}"))
    }

    /// Whether a job of the shell has the terminal.
    pub(crate) fn has_given_the_terminal(&self) -> bool {
        self.foreground() != self.shell.id()
    }

    /// The `lockkeeper run` of the shell, or of a script in the shell.
    pub(crate) fn run(&self) -> u32 {
        let mut found = None;
        eventually("the run", || {
            let jobs = children(self.shell.id());
            let below = jobs.iter().flat_map(|job| children(job.parse().unwrap()));
            let is_run =
                |pid: &String| text(format!("/proc/{pid}/cmdline")).starts_with("lockkeeper\0run");
            found = jobs.clone().into_iter().chain(below).find(is_run);
            found.is_some()
        });
        found.unwrap().parse().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A named pipe beside the store: waiting for it needs neither a fork nor the terminal.
pub(crate) fn pipe(store: &Store, name: &str) {
    assert!(Command::new("mkfifo").arg(store.path(name)).status().unwrap().success());
}

pub(crate) fn is_stopped(pid: u32) -> bool {
    text(format!("/proc/{pid}/stat")).contains(") T")
}
