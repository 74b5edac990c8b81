//! The start of the command. What is started first is this program once more, as a shim: it waits until it hears that
//! the command may begin, and becomes the command then. So the guard knows the command's number before there is a
//! command, and nothing is started under a lock that was lost meanwhile.
//!
//! The shim's stdin is a socket; the command's stdin comes through it with the word to begin. The end of the socket
//! before that word is the end of the shim.

mod process;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Line;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;
use tokio::net::UnixStream;

use super::signals;
use super::this_program::ThisProgram;
pub(crate) use process::begin;

/// What makes this program a shim. Its further arguments: PATH of the command, if it has one, behind a sign; the
/// command's file; its arguments, with its name as the first.
pub(crate) const ROLE: &str = "__start";
/// Under which name `ps` shows it.
const NAME: &str = "lockkeeper-start";
/// What the shim says when it waits.
const READY: u8 = b'r';
/// What it waits for.
const GO: u8 = b'g';

/// The other end of a shim. Dropping it before [`go`](Self::go) ends the shim.
#[derive(Debug)]
pub(super) struct Shim {
    process: Child,
    line: UnixStream,
}

impl Shim {
    /// Starts one in a process group that it does not lead. `environment` gives it the command's.
    pub(super) fn start(path: &Path, argv: &[OsString], environment: impl Fn(&mut Command)) -> io::Result<Self> {
        let (line, far) = Line::pair()?;
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        let this = ThisProgram::new();
        let (dir, name) = (this.exe.parent().map(Path::to_owned), this.exe.file_name().map(OsStr::to_owned));
        let mut command = ThisProgram { exe: name.map(Into::into).unwrap_or_default(), ..this }.command(NAME, ROLE);
        environment(&mut command);
        command.arg(sign(std::env::var_os("PATH"))).arg(path).args(argv);
        // Where it is looked up like that, the standard library forks. What is spawned otherwise ignores two signals of
        // the C library, and whatever it executes does too.
        command.env("PATH", dir.unwrap_or_default());
        command.stdin(OwnedFd::from(far));
        let group = Group::new()?;
        let process = signals::with_given_mask(|| command.process_group(group.number()).spawn())?;
        Ok(Self { process, line })
    }

    /// What the command's number will be.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Completes when it waits for the word to begin. Cancel safe.
    pub(super) async fn ready(&self) -> io::Result<()> {
        match self.read(&mut [0]).await? {
            0 => Err(io::Error::other("the process that starts it has ended")),
            _ => Ok(()),
        }
    }

    /// The command begins.
    pub(super) fn go(&self) -> io::Result<()> {
        let stdin = io::stdin();
        let stdin = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&stdin));
        sendmsg(&self.line, &[IoSlice::new(&[GO])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Why the command could not be executed; `None` when it was, or was killed on the way. Cancel safe.
    pub(super) async fn refusal(&self) -> Option<io::Error> {
        let mut errno = [0; 4];
        let length = self.read(&mut errno).await;
        refusal(errno, length.ok())
    }

    /// The same of a shim, or a command, that has ended.
    pub(super) fn late_refusal(&self) -> Option<io::Error> {
        let mut errno = [0; 4];
        let length = rustix::io::read(&self.line, &mut errno);
        refusal(errno, length.ok())
    }

    async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.line.readable().await?;
            match self.line.try_read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    /// Ends a shim that has not begun.
    pub(super) fn end(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn refusal(errno: [u8; 4], length: Option<usize>) -> Option<io::Error> {
    (length == Some(errno.len())).then(|| io::Error::from_raw_os_error(i32::from_le_bytes(errno)))
}

/// The sign tells an empty PATH from none.
fn sign(path: Option<OsString>) -> OsString {
    path.map_or_else(OsString::new, |path| {
        let mut signed = OsString::from("=");
        signed.push(path);
        signed
    })
}

/// A process group whose leader is nobody that is needed. Whoever leads its group cannot make a session of its own:
/// `setsid` would leave the work to a child, and end.
struct Group(Child);

impl Group {
    fn new() -> io::Result<Self> {
        let mut leader = ThisProgram::new().command(NAME, ROLE);
        leader.env_clear().process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        leader.spawn().map(Self)
    }

    fn number(&self) -> i32 {
        Pid::from_child(&self.0).as_raw_nonzero().get()
    }
}

impl Drop for Group {
    /// The number is the group's for as long as the group has a member.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
