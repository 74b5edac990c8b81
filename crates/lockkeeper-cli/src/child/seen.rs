//! One process that was seen, however long ago: whether it is still that one, and how it is signalled.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process, pidfd_open, pidfd_send_signal};

use super::processes::{Process, group_of};

/// A process, under its number.
#[derive(Debug)]
pub(super) struct Seen {
    /// A descriptor rather than a number: a number may be given to somebody else meanwhile. `None` where there would be
    /// too many, and none left to look with.
    pub(super) process: Option<OwnedFd>,
    /// At the last look.
    pub(super) session: Option<Pid>,
    pub(super) started: Option<u64>,
    /// TERM was sent to it.
    pub(super) has_heard: bool,
}

impl Seen {
    /// Without a descriptor the number and the moment of the start tell who it is.
    pub(super) fn is_alive(&self, pid: Pid) -> bool {
        match &self.process {
            Some(process) => !has_ended(process, Duration::ZERO),
            None => {
                Process::of(pid.as_raw_nonzero().get()).is_some_and(|it| !it.has_ended && it.started == self.started)
            }
        }
    }

    /// Its group; also when it has ended, until its parent has asked how.
    pub(super) fn group(&self, pid: Pid) -> Option<Pid> {
        if self.is_alive(pid) {
            return group_of(pid);
        }
        let ended = Process::of(pid.as_raw_nonzero().get())?;
        (ended.started.is_some() && ended.started == self.started).then_some(ended.group)?
    }

    pub(super) fn signal(&self, pid: Pid, signal: Signal) {
        let _ = match &self.process {
            Some(process) => pidfd_send_signal(process, signal),
            None if self.is_alive(pid) => kill_process(pid, signal),
            None => Ok(()),
        };
    }
}

/// How many descriptors of processes there may be.
pub(super) fn room() -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(usize::MAX, |limit| limit / 2)
}

/// `None` if it is gone.
pub(super) fn open(pid: Pid) -> Option<Option<OwnedFd>> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => None,
        result => Some(result.ok()),
    }
}

/// Waits for the end of a process for at most this long.
pub(super) fn has_ended(process: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).ok();
    poll(&mut [PollFd::new(process, PollFlags::IN)], within.as_ref()).is_ok_and(|ready| ready > 0)
}
