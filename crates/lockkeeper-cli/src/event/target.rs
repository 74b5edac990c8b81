//! Where `--events` goes: a descriptor that we have inherited, or a file.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, openat};
use rustix::io::Errno;

use crate::exit::Failure;

/// The target as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Descriptor(i32),
    File(PathBuf),
}

impl Target {
    /// `fd:N`, or a file of any other name.
    pub(crate) fn parse(text: OsString) -> Result<Self, String> {
        let Some(number) = text.to_str().and_then(|text| text.strip_prefix("fd:")) else {
            return if text.is_empty() {
                Err("the name is empty".to_owned())
            } else {
                Ok(Self::File(text.into()))
            };
        };
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let parsed = number.parse().ok().filter(|_| is_number);
        parsed.map(Self::Descriptor).ok_or_else(|| {
            format!("{number:?} is not the number of a descriptor. Try: fd:3, or ./fd:{number} for a file of this name")
        })
    }

    /// Opens the target for this process alone: the command does not inherit it.
    ///
    /// Call it before any other file is opened: the number of a closed descriptor must not become
    /// one of lockkeeper's own files.
    pub(crate) fn open(&self) -> Result<OwnedFd, Failure> {
        let opened = match self {
            Self::Descriptor(number) => inherited(*number),
            Self::File(path) => file(path).map_err(io::Error::from),
        };
        opened.map_err(|error| {
            Failure::config(format!(
                "--events {self}: it cannot be opened: {error}. Try: {}",
                self.remedy(&error)
            ))
        })
    }

    fn remedy(&self, error: &io::Error) -> String {
        match (self, Errno::from_io_error(error)) {
            (Self::Descriptor(n), _) => {
                format!("open it for writing, as with {n}>>events.jsonl in a shell")
            }
            (_, Some(Errno::NXIO)) => "start the reader of the pipe first".to_owned(),
            _ => "a file in a folder in which you may write, or fd:N".to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(number) => write!(f, "fd:{number}"),
            Self::File(path) => write!(f, "{:?}", path),
        }
    }
}

/// Opens the file for appending, so that runs can share it. A named pipe without a reader must not
/// block `run`, hence `NONBLOCK`.
fn file(path: &PathBuf) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    openat(CWD, path, flags, Mode::from_raw_mode(0o666))
}

fn inherited(number: i32) -> io::Result<OwnedFd> {
    let own = match number {
        0 => io::stdin().as_fd().try_clone_to_owned()?,
        1 => io::stdout().as_fd().try_clone_to_owned()?,
        2 => io::stderr().as_fd().try_clone_to_owned()?,
        _ => duplicate(number)?,
    };
    let mode = fcntl_getfl(&own)? & OFlags::RWMODE;
    if mode == OFlags::RDONLY {
        return Err(Errno::BADF.into());
    }
    Ok(own)
}

/// A number is no proof of a descriptor, so only the kernel can be asked for it. The kernel gives
/// the very same open file where that is allowed; opening it again through /proc works for files
/// and pipes.
#[cfg(target_os = "linux")]
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let Ok(this) = pidfd_open(getpid(), PidfdFlags::empty()) else { return reopen(number) };
    if this.as_raw_fd() == number {
        // No file had this number: otherwise the kernel would have given another number.
        return Err(Errno::BADF.into());
    }
    match pidfd_getfd(&this, number, PidfdGetfdFlags::empty()) {
        Err(Errno::PERM | Errno::NOSYS) => reopen(number),
        result => Ok(result?),
    }
}

#[cfg(not(target_os = "linux"))]
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    reopen(number)
}

fn reopen(number: i32) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY;
    match openat(CWD, format!("/dev/fd/{number}"), flags, Mode::empty()) {
        Err(Errno::NOENT) => Err(Errno::BADF.into()),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_distinguished_from_a_file() {
        assert_eq!(Target::parse("fd:3".into()), Ok(Target::Descriptor(3)));
        for name in ["events.jsonl", "./fd:3", "fd", "/dev/fd/3"] {
            assert_eq!(Target::parse(name.into()), Ok(Target::File(name.into())));
        }
        for wrong in ["fd:", "fd:x", "fd:-1", "fd:+1", "fd:99999999999", ""] {
            assert!(Target::parse(wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_inherited_descriptor_can_be_opened_again() {
        use std::io::Read;
        let (mut reader, writer) = io::pipe().unwrap();
        let reopened = reopen(writer.as_raw_fd()).unwrap();
        drop(writer);
        rustix::io::write(&reopened, b"x").unwrap();
        drop(reopened);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
}
