//! The main function of the shim.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::execve;
use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;
use signal_hook::flag;

use super::READY;
use crate::exit::Exit;

/// Waits for the word to begin, and becomes the command.
pub(crate) fn begin() -> ExitCode {
    let Ok(Some(line)) = wait() else { return ExitCode::FAILURE };
    let Err(error) = become_command();
    // The parent of this process reads the error from the socket; the exit code has no reader.
    let errno = error.raw_os_error().unwrap_or_default();
    let _ = (&line).write_all(&errno.to_le_bytes());
    ExitCode::from(Exit::NotExecutable.code())
}

/// The socket for the refusal; `None` if the command must not start.
fn wait() -> io::Result<Option<UnixStream>> {
    let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    (&line).write_all(&[READY])?;
    let Some(stdin) = receive(&line)? else { return Ok(None) };
    rustix::stdio::dup2_stdin(&stdin)?;
    Ok(Some(line))
}

/// The command's stdin, which comes with the word.
fn receive(line: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    recvmsg(line, &mut [IoSliceMut::new(&mut word)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

fn become_command() -> io::Result<Infallible> {
    let mut args = std::env::args_os().skip(2);
    let search_path = args.next().unwrap_or_default();
    let file = string(&args.next().unwrap_or_default())?;
    let argv = args.map(|arg| string(&arg)).collect::<io::Result<Vec<_>>>()?;
    let environment = environment(&search_path).collect::<io::Result<Vec<_>>>()?;
    // Rust's runtime ignores SIGPIPE. A signal with a handler gets its default action again in the
    // executed program.
    flag::register(Signal::PIPE.as_raw(), Arc::new(AtomicBool::new(false)))?;
    Ok(execve(&file, &argv, &environment)?)
}

/// Ours, but for PATH.
fn environment(search_path: &OsStr) -> impl Iterator<Item = io::Result<CString>> {
    let path = search_path.as_bytes().strip_prefix(b"=").map(|path| [b"PATH=", path].concat());
    let others = std::env::vars_os().filter(|(name, _)| name != "PATH");
    let others = others.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    path.into_iter().chain(others).map(|line| Ok(CString::new(line)?))
}

fn string(text: &OsString) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
