//! This program once more, as the processes that a command needs beside `run`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// What is started, and with which arguments, to be this program in another role.
#[derive(Debug)]
pub(super) struct ThisProgram {
    pub(super) exe: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl ThisProgram {
    /// If somebody started us by the dynamic loader (`ld.so lockkeeper run …`), the loader is what runs here: its options
    /// come first, and then the program.
    pub(super) fn new() -> Self {
        let line = fs::read("/proc/self/cmdline").unwrap_or_default();
        Self { exe: exe(), args: of_loader(&line, std::env::args_os().len()) }
    }

    /// What starts it in this role, shown by `ps` under a name where that is possible.
    pub(super) fn command(self, name: &str, role: &str) -> Command {
        let mut command = Command::new(&self.exe);
        if self.args.is_empty() {
            command.arg0(name);
        }
        command.args(self.args).arg(role);
        command
    }
}

/// It is there even when the file has been replaced.
#[cfg(not(test))]
fn exe() -> PathBuf {
    "/proc/self/exe".into()
}

/// The program beside the one with the tests in it.
#[cfg(test)]
fn exe() -> PathBuf {
    let tests = std::env::current_exe().expect("a program has a file");
    tests.parent().and_then(|deps| deps.parent()).expect("it lies in target/debug/deps").join("lockkeeper")
}

/// What stands in our command line before our own arguments, without the very first: the kernel keeps the whole line,
/// the loader hands on what follows its own part. Our own arguments, of which there are `own`, begin with our name.
fn of_loader(line: &[u8], own: usize) -> Vec<OsString> {
    let line = line.strip_suffix(b"\0").unwrap_or(line);
    let args: Vec<_> = line.split(|byte| *byte == 0).map(|arg| OsString::from_vec(arg.to_vec())).collect();
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
        // A line that somebody has overwritten, or that cannot be seen.
        assert!(of(b"lockkeeper: busy\0", 3).is_empty());
        assert!(of(b"", 3).is_empty());
    }
}
