//! Finds the command, and starts it in a process group of its own, beside a guard and under a held
//! lock.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::LostReason;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, timeout};

use super::environment;
use super::guard::Guardian;
use super::lease::Lease;
use super::policy::Policy;
use super::running::Running;
use super::shim::Shim;
use super::signals::Signals;
use super::supervise::{loss, lost_by_now};
use super::terminal::Terminal;
use crate::event::Reporter;
use crate::exit::{Exit, Failure};
use crate::{random, runtime};

/// How long a guard and a shim may take to start. A busy machine is slow, and the lock is renewed
/// meanwhile.
const STAND_UP: Duration = Duration::from_secs(30);
/// How long `run` waits for the execution of the command. After that the command counts as running.
const EXECUTE: Duration = Duration::from_secs(1);
/// Where shells look when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A command that was found, with its arguments.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    argv: Vec<OsString>,
}

/// Looks the command up as execvp(3) does, so that a missing command is an error before the run
/// takes a place in the queue.
pub(crate) fn find(argv: &[OsString], search_path: Option<OsString>) -> Result<Program, Failure> {
    let Some(name) = argv.first() else {
        return Err(Failure::usage("a command is missing after --"));
    };
    let found = |path| Ok(Program { path, argv: argv.to_vec() });
    let mut refused = None;
    for candidate in candidates(name, search_path) {
        match executable(&candidate) {
            Ok(()) => return found(candidate),
            Err(error) if is_absent(&error) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(match refused {
        Some(error) => cannot_start(name, &error),
        None => not_found(name),
    })
}

fn candidates(name: &OsStr, search_path: Option<OsString>) -> Vec<PathBuf> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    let search_path = search_path.unwrap_or_else(|| DEFAULT_PATH.into());
    // An empty element is the working directory; "./" keeps the name from being looked up again.
    std::env::split_paths(&search_path).map(|dir| Path::new(".").join(dir).join(name)).collect()
}

fn executable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn not_found(name: &OsStr) -> Failure {
    let remedy = "the path of the command, or another PATH";
    Failure::new(Exit::NotFound, format!("{}: command not found. Try: {remedy}", shown(name)))
}

fn cannot_start(name: &OsStr, error: &io::Error) -> Failure {
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::ACCESS) => "chmod +x, or another file",
        Some(Errno::NOEXEC) => "a first line such as #!/bin/sh",
        Some(Errno::NOENT) => {
            "another interpreter in its first line, or a binary whose loader is here"
        }
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            return runtime::refused(&shown(name), error);
        }
        Some(Errno::TOOBIG) => "fewer or shorter arguments and variables",
        _ => "another file",
    };
    Failure::new(
        Exit::NotExecutable,
        format!("{}: cannot execute: {error}. Try: {remedy}", shown(name)),
    )
}

/// The name as typed; an empty name is made visible too.
fn shown(name: &OsStr) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { name.display().to_string() }
}

/// The settings for the start of a command.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The variables for the command.
    pub(crate) set: &'a [(&'a str, String)],
    /// The variables that the command must not see.
    pub(crate) stripped: &'a [&'a str],
    pub(crate) policy: Policy,
    /// Shows the store that this client lives: the client lives as long as the command does.
    pub(crate) liveness: Option<File>,
    /// Reports problems while the command runs.
    pub(crate) reporter: Arc<Reporter>,
    /// This process starts only commands and their helpers: every other child is an orphan of a
    /// command.
    pub(crate) starts_nobody_else: bool,
}

/// How the start went.
#[derive(Debug)]
pub(crate) enum Started {
    Yes(Box<Running>),
    /// The lock was lost before, and the command never began.
    Lost(LostReason),
    /// So did this signal come before.
    Interrupted(Signal),
}

impl Program {
    /// Starts the command in a process group of its own, which it does not lead and which gets the
    /// foreground of the terminal if `run` has it. The command inherits stdin, stdout, stderr and
    /// the original signals.
    ///
    /// The command begins when its guard knows it, and only if the lock is held at that moment.
    pub(crate) async fn start(
        &self,
        launch: Launch<'_>,
        lease: &impl Lease,
        signals: &mut Signals,
    ) -> Result<Started, Failure> {
        let policy = launch.policy;
        let mut running = self.prepare(launch, policy.kill_time(lease))?;
        let lost = tokio::select! {
            biased;
            loss = loss(lease, policy) => Some(loss.reason),
            signal = signals.next_ending() => {
                running.give_up();
                return Ok(Started::Interrupted(signal));
            }
            ready = stand_up(&mut running, lease, policy) => match ready {
                Ok(()) => lost_by_now(lease, policy),
                // The guard may have ended the shim.
                Err(error) => match lost_by_now(lease, policy) {
                    Some(reason) => Some(reason),
                    None => {
                        running.give_up();
                        return Err(self.internal(&error));
                    }
                },
            },
        };
        if let Some(reason) = lost {
            running.give_up();
            return Ok(Started::Lost(reason));
        }
        // From here on the guard kills in time, even if we are stopped before the next step.
        if let Err(error) = running.go() {
            running.give_up();
            // The guard may have ended the shim just now.
            return lost_by_now(lease, policy)
                .map(Started::Lost)
                .ok_or_else(|| self.internal(&error));
        }
        match timeout(EXECUTE.min(lease.remaining() / 6), running.refusal()).await {
            Ok(Some(error)) => {
                running.give_up();
                Err(self.refused(&error))
            }
            // A longer start, on a file system that hangs, is waited for like the command itself.
            _ => Ok(Started::Yes(Box::new(running))),
        }
    }

    fn prepare(&self, launch: Launch<'_>, kill_at: Duration) -> Result<Running, Failure> {
        // Before the start, so that no end is missed.
        let ends = unix::signal(SignalKind::child()).map_err(|error| self.internal(&error))?;
        let mark = random::number()?;
        let mut guard = Guardian::start(launch.liveness, launch.starts_nobody_else, mark)
            .map_err(|error| runtime::refused("no guard process", &error))?;
        guard.extend(kill_at);
        let prepare = |command: &mut Command| {
            for variable in launch.stripped {
                command.env_remove(variable);
            }
            command
                .envs(launch.set.iter().map(|(key, value)| (key, value)))
                .envs([environment::mark(mark)]);
        };
        match Shim::start(&self.path, &self.argv, prepare) {
            Ok(shim) => {
                Ok(Running::new(shim, ends, guard, Terminal::of_this_process(), launch.reporter))
            }
            Err(error) => {
                let _ = guard.dismiss();
                Err(cannot_start(&self.argv[0], &error))
            }
        }
    }

    fn internal(&self, error: &io::Error) -> Failure {
        runtime::refused(&shown(&self.argv[0]), error)
    }

    /// Why the command could not be executed.
    pub(crate) fn refused(&self, error: &io::Error) -> Failure {
        // The file was there at the look-up.
        let is_gone = is_absent(error) && !self.path.exists();
        if is_gone { not_found(&self.argv[0]) } else { cannot_start(&self.argv[0], error) }
    }
}

/// Waits for guard and shim. Meanwhile it sends renewals to the guard.
async fn stand_up(running: &mut Running, lease: &impl Lease, policy: Policy) -> io::Result<()> {
    let until = Instant::now() + STAND_UP;
    loop {
        let moment =
            (lease.remaining() / 6).clamp(Duration::from_millis(10), Duration::from_secs(1));
        match timeout(moment, running.ready()).await {
            Ok(ready) => return ready,
            Err(late) if Instant::now() >= until => return Err(late.into()),
            Err(_) => running.extend(policy.kill_time(lease)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(name: &str, path: &Path) -> Result<PathBuf, Exit> {
        find(&[name.into()], Some(path.into()))
            .map(|program| program.path)
            .map_err(|failure| failure.exit)
    }

    #[test]
    fn a_command_is_looked_up_as_a_shell_does() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain"), "").unwrap();
        std::fs::create_dir(dir.path().join("directory")).unwrap();
        assert_eq!(find_in("plain", dir.path()), Err(Exit::NotExecutable));
        assert_eq!(find_in("directory", dir.path()), Err(Exit::NotExecutable));
        assert_eq!(find_in("missing", dir.path()), Err(Exit::NotFound));
        assert_eq!(find_in("", dir.path()), Err(Exit::NotFound));
        assert_eq!(find_in("/", dir.path()), Err(Exit::NotExecutable));
        assert_eq!(find_in("/bin/sh/x", dir.path()), Err(Exit::NotFound));
        assert_eq!(find_in("/bin/sh", dir.path()), Ok("/bin/sh".into()));
        assert_eq!(find_in("sh", Path::new("/nowhere:/bin")), Ok("/bin/sh".into()));
    }
}
