//! Finding the command, starting it as the leader of a process group, and waiting for its end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid, waitpid};
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{Exit, Failure};

/// Where shells look when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A command that was found, with its arguments.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    argv: Vec<OsString>,
}

/// Looks the command up as execvp(3) does, so that a missing one is told before a place in line is taken.
pub(crate) fn find(argv: &[OsString], search_path: Option<OsString>) -> Result<Program, Failure> {
    let Some(name) = argv.first() else { return Err(Failure::usage("a command is missing after --")) };
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
        None => Failure::new(Exit::NotFound, format!("{}: command not found", name.display())),
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

fn cannot_start(name: &OsStr, error: &io::Error) -> Failure {
    let exit = if is_absent(error) { Exit::NotFound } else { Exit::NotExecutable };
    Failure::new(exit, format!("{}: cannot execute: {error}", name.display()))
}

/// The command while it runs: a process, and the group that it leads.
#[derive(Debug)]
pub(crate) struct Running {
    leader: Pid,
    status: Option<ExitStatus>,
    ends: unix::Signal,
}

impl Program {
    /// Starts it in a process group of its own. It inherits stdin, stdout and stderr as they are.
    pub(crate) fn start(&self, set: &[(&str, String)], stripped: &[&str]) -> Result<Running, Failure> {
        let name = &self.argv[0];
        let internal = |error: io::Error| Failure::new(Exit::Internal, format!("{}: {error}", name.display()));
        // Before the start, so that no end is missed.
        let ends = unix::signal(SignalKind::child()).map_err(internal)?;
        let mut command = Command::new(&self.path);
        command.arg0(name).args(&self.argv[1..]).process_group(0);
        for variable in stripped {
            command.env_remove(variable);
        }
        command.envs(set.iter().map(|(key, value)| (key, value)));
        let child = command.spawn().map_err(|error| cannot_start(name, &error))?;
        Ok(Running { leader: Pid::from_child(&child), status: None, ends })
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for the end of the command itself and reaps it. Cancel safe; later calls give the same answer.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            self.reap()?;
            if let Some(status) = self.status {
                return Ok(status);
            }
            self.ends.recv().await;
        }
    }

    /// Sends a signal to the whole group. That it may be gone already is no news.
    /// A group that is stopped, as by reading a terminal from the background, goes on in order to end.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
        if matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT) {
            let _ = kill_process_group(self.leader, Signal::CONT);
        }
    }

    /// Makes orphans of the group our children, so that they are reaped here however lazy PID 1 is. Not before it is
    /// needed: a daemon that the command starts may expect PID 1 as its parent.
    pub(crate) fn adopt_orphans() {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }

    /// Whether anything of the group is left. Its number is not given to others as long as that is so.
    pub(crate) fn group_is_alive(&mut self) -> bool {
        drop(self.reap());
        test_kill_process_group(self.leader).is_ok()
    }

    /// Reaps the command, wherever it went, and adopted orphans of its group.
    fn reap(&mut self) -> io::Result<()> {
        if self.status.is_none()
            && let Some((_, status)) = waitpid(Some(self.leader), WaitOptions::NOHANG)?
        {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
        }
        while let Ok(Some((pid, status))) = waitpgid(self.leader, WaitOptions::NOHANG) {
            if pid == self.leader {
                self.status = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(name: &str, path: &Path) -> Result<PathBuf, Exit> {
        find(&[name.into()], Some(path.into())).map(|program| program.path).map_err(|failure| failure.exit)
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
