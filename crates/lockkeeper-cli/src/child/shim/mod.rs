//! The start of the command. `run` first starts this program again as a shim. The shim waits for
//! the order to begin, and then becomes the command. So the guard knows the process id before there
//! is a command, and no command starts under a lock that was lost meanwhile.
//!
//! The shim's stdin is a socket. The order to begin carries the command's stdin. If the socket ends
//! before the order, the shim ends.

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

/// The first argument of this program when it is a shim. Its further arguments are the PATH of the
/// command after a sign, if there is a PATH; the command's file; and the command's arguments, with
/// its name first.
pub(crate) const ROLE: &str = "__start";
/// The name of a shim in `ps`.
const NAME: &str = "lockkeeper-start";
/// The shim sends this when it waits.
const READY: u8 = b'r';
/// The order that the shim waits for.
const GO: u8 = b'g';

/// The handle of a shim. Dropping it before [`go`](Self::go) ends the shim.
#[derive(Debug)]
pub(super) struct Shim {
    process: Child,
    line: UnixStream,
}

impl Shim {
    /// Starts a shim in a process group that the shim does not lead. `environment` gives the shim
    /// the command's environment.
    pub(super) fn start(
        path: &Path,
        argv: &[OsString],
        environment: impl Fn(&mut Command),
    ) -> io::Result<Self> {
        let (line, far) = Line::pair()?;
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        let this = ThisProgram::new();
        let (dir, name) =
            (this.exe.parent().map(Path::to_owned), this.exe.file_name().map(OsStr::to_owned));
        let mut command = ThisProgram { exe: name.map(Into::into).unwrap_or_default(), ..this }
            .command(NAME, ROLE);
        environment(&mut command);
        command.arg(sign(std::env::var_os("PATH"))).arg(path).args(argv);
        // With this PATH, the standard library forks. Otherwise it spawns; a spawned process
        // ignores two signals of the C library, and so does every program that it executes.
        command.env("PATH", dir.unwrap_or_default());
        command.stdin(OwnedFd::from(far));
        let group = Group::new()?;
        let process = signals::with_given_mask(|| command.process_group(group.number()).spawn())?;
        Ok(Self { process, line })
    }

    /// The process id that the command will have.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Completes when the shim waits for the order to begin. Cancel safe.
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

    /// Why the command could not be executed; `None` if it was executed, or was killed on the way.
    /// Cancel safe.
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

/// The sign distinguishes an empty PATH from no PATH.
fn sign(path: Option<OsString>) -> OsString {
    path.map_or_else(OsString::new, |path| {
        let mut signed = OsString::from("=");
        signed.push(path);
        signed
    })
}

/// A process group whose leader does no other work. The leader of a group cannot make a session of
/// its own: `setsid` would leave the work to a child, and end.
struct Group(Child);

impl Group {
    fn new() -> io::Result<Self> {
        let mut leader = ThisProgram::new().command(NAME, ROLE);
        leader
            .env_clear()
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
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
