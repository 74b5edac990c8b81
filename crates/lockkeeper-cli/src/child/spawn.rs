//! Finding the command, and starting it as the leader of a process group.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::Pid;
use tokio::signal::unix::{self, SignalKind};

use super::guard::{Guardian, SEQUENCER};
use super::running::Running;
use super::terminal::Terminal;
use crate::exit::{Exit, Failure};
use crate::runtime;

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
        Some(Errno::NOENT) => "another interpreter in its first line, or a binary whose loader is here",
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            return runtime::refused(&shown(name), error);
        }
        Some(Errno::TOOBIG) => "fewer or shorter arguments and variables",
        _ => "another file",
    };
    Failure::new(Exit::NotExecutable, format!("{}: cannot execute: {error}. Try: {remedy}", shown(name)))
}

/// As it was typed, but that nothing at all is seen too.
fn shown(name: &OsStr) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { name.display().to_string() }
}

/// What a command starts with.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// Variables for its environment.
    pub(crate) set: &'a [(&'a str, String)],
    /// Variables that it must not see.
    pub(crate) stripped: &'a [&'a str],
    /// When it has to die if nothing more is heard of us, by the guard's clock.
    pub(crate) kill_at: Duration,
    /// What shows the store that this client lives: it does as long as the command does.
    pub(crate) liveness: Option<File>,
}

impl Program {
    /// Starts it in a process group of its own, which gets the foreground of the terminal if we have it. It inherits
    /// stdin, stdout and stderr as they are.
    pub(crate) fn start(&self, launch: Launch<'_>) -> Result<Running, Failure> {
        let name = &self.argv[0];
        let internal = |error: io::Error| runtime::refused(&name.display().to_string(), &error);
        // Before the start, so that no end is missed.
        let ends = unix::signal(SignalKind::child()).map_err(internal)?;
        let guard = Guardian::start(launch.sequencer(), launch.liveness)
            .map_err(|error| runtime::refused("no guard process", &error))?;
        guard.extend(launch.kill_at);
        let mut command = Command::new(&self.path);
        command.arg0(name).args(&self.argv[1..]).process_group(0);
        for variable in launch.stripped {
            command.env_remove(variable);
        }
        command.envs(launch.set.iter().map(|(key, value)| (key, value)));
        let terminal = Terminal::of_this_process();
        match command.spawn() {
            Ok(child) => Ok(Running::new(Pid::from_child(&child), ends, guard, terminal)),
            Err(error) => {
                guard.dismiss();
                // It was there when it was looked up.
                Err(if is_absent(&error) && !self.path.exists() { not_found(name) } else { cannot_start(name, &error) })
            }
        }
    }
}

impl<'a> Launch<'a> {
    fn sequencer(&self) -> &'a str {
        let mut set = self.set.iter();
        set.find(|(key, _)| *key == SEQUENCER).map_or("", |(_, sequencer)| sequencer)
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
