//! A server as a process: started, stopped, continued, killed.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::nursery::nursery;

/// Many times the duration of any step here, for a busy machine. A Sentinel that notices a jump of
/// the time, because the machine was stopped for 2 s, elects no master for 30 s, and that may
/// happen again.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(180);

/// After this time the servers have given up a requested failover, and the caller requests it
/// again.
pub(crate) const GIVEN_UP: Duration = Duration::from_secs(8);

/// How often a condition without an event is checked.
const PACE: Duration = Duration::from_millis(2);

/// Asks until the answer is not `None`.
///
/// # Errors
/// If `ask` itself fails, or no answer comes within 180 s.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if start.elapsed() > TIME_LIMIT {
            bail!("{what}: not within {TIME_LIMIT:?}");
        }
        thread::sleep(PACE);
    }
}

/// A running server. Dropping this value kills the server.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the server. Its output is appended to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file =
            OpenOptions::new().create(true).append(true).open(log).context("cannot write a log")?;
        let other = file.try_clone().context("cannot write a log")?;
        let command = command.stdin(Stdio::null()).stdout(file).stderr(other);
        let child = nursery()?
            .adopt(command)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the server has neither ended nor been stopped.
    pub(crate) fn is_going(&self) -> bool {
        !matches!(state(Path::new(&format!("/proc/{}", self.id()))), None | Some('Z' | 'T'))
    }

    /// The output of the server.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map_or_else(
            |error| error.to_string(),
            |text| String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// # Errors
    /// If the server has ended, with its output.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait().context("cannot look after a server")? {
            None => Ok(()),
            Some(status) => bail!("the server has ended ({status}). It said:\n{}", self.log()),
        }
    }

    /// Stops the server, and waits until each of its threads is stopped.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let tasks = format!("/proc/{}/task", self.id());
        eventually("a stopped server stands", || {
            self.must_run()?;
            let threads: Vec<_> =
                fs::read_dir(&tasks).context("cannot look at the threads")?.flatten().collect();
            Ok(threads.iter().all(|thread| state(&thread.path()) == Some('T')).then_some(()))
        })
    }

    pub(crate) fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// `kill -9`, even when the server is stopped.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill a server")?;
        self.child.wait().context("cannot wait for a server")?;
        Ok(())
    }

    /// Asks the server to end, and waits for its end.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        eventually("a server ends when it is asked to", || {
            Ok(self.child.try_wait().context("cannot wait for a server")?.map(|_| ()))
        })
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // The child is not reaped yet, so it still has this process id.
        self.must_run()?;
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot send {signal:?}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has ended already, or only the watchdog can end it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The letter that `ps` shows for a process or a thread.
fn state(folder: &Path) -> Option<char> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The state comes after the name, which may contain parentheses.
    stat.rsplit(") ").next()?.chars().next()
}
