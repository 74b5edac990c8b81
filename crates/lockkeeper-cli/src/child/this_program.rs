//! This program once more, as the processes that a command needs beside `run`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program and the arguments that start lockkeeper again in another role.
#[derive(Debug)]
pub(super) struct ThisProgram {
    pub(super) exe: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl ThisProgram {
    /// If the dynamic loader started this program (`ld.so lockkeeper run …`), the loader is the
    /// running executable: its options come first, and then the program.
    pub(super) fn new() -> Self {
        let line = fs::read("/proc/self/cmdline").unwrap_or_default();
        Self { exe: exe(), args: of_loader(&line, std::env::args_os().len()) }
    }

    /// The command that starts this program in a role, with a name for `ps` where that is possible.
    pub(super) fn command(self, name: &str, role: &str) -> Command {
        let mut command = Command::new(&self.exe);
        if self.args.is_empty() {
            command.arg0(name);
        }
        command.args(self.args).arg(role);
        command
    }
}

/// The link works even when the file has been replaced.
#[cfg(not(test))]
fn exe() -> PathBuf {
    "/proc/self/exe".into()
}

/// The program beside the test program.
#[cfg(test)]
fn exe() -> PathBuf {
    let tests = std::env::current_exe().expect("a program has a file");
    tests
        .parent()
        .and_then(|deps| deps.parent())
        .expect("it lies in target/debug/deps")
        .join("lockkeeper")
}

/// The part of the command line before lockkeeper's own arguments, without the very first word. The
/// kernel keeps the whole line, and the loader passes on the words after its own part. The own
/// arguments begin with the program's name, and `own` is their number.
fn of_loader(line: &[u8], own: usize) -> Vec<OsString> {
    let line = line.strip_suffix(b"\0").unwrap_or(line);
    let args: Vec<_> =
        line.split(|byte| *byte == 0).map(|arg| OsString::from_vec(arg.to_vec())).collect();
    let before = args.len().saturating_sub(own);
    args.into_iter().skip(1).take(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_was_given_is_distinguished_from_what_we_were_given() {
        let of = |line: &[u8], own| of_loader(line, own);
        assert!(of(b"lockkeeper\0run\0a\0", 3).is_empty());
        assert!(of(b"lockkeeper\0run\0\0", 3).is_empty());
        assert_eq!(of(b"/lib/ld.so\0./lk\0run\0a\0", 3), ["./lk"]);
        assert_eq!(of(b"/lib/ld.so\0--argv0\0x\0./lk\0run\0", 2), ["--argv0", "x", "./lk"]);
        // A command line that was overwritten, or cannot be seen.
        assert!(of(b"lockkeeper: busy\0", 3).is_empty());
        assert!(of(b"", 3).is_empty());
    }
}
