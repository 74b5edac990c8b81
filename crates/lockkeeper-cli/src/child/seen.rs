//! A process that was seen, however long ago: whether the number still names this process, and how
//! to signal it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process, pidfd_open, pidfd_send_signal,
};

use super::processes::{Process, group_of};

/// A process; its number is the key.
#[derive(Debug)]
pub(super) struct Seen {
    /// A descriptor, since the number may be given to another process meanwhile. `None` if the
    /// descriptors would be too many, and would leave none to look with.
    pub(super) process: Option<OwnedFd>,
    /// At the last look.
    pub(super) session: Option<Pid>,
    pub(super) started: Option<u64>,
    /// The process got TERM.
    pub(super) was_signalled: bool,
}

impl Seen {
    /// Without a descriptor, the number and the start time identify the process.
    pub(super) fn is_alive(&self, pid: Pid) -> bool {
        match &self.process {
            Some(process) => !has_ended(process, Duration::ZERO),
            None => Process::of(pid.as_raw_nonzero().get())
                .is_some_and(|it| !it.has_ended && it.started == self.started),
        }
    }

    /// The group of the process; also after its end, until it is reaped.
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

/// `None` if the process is gone.
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn without_a_descriptor_an_ended_or_restarted_process_is_not_the_seen_one() {
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let seen = |started| Seen { process: None, session: None, started, was_signalled: false };
        let started = Process::of(pid.as_raw_nonzero().get()).unwrap().started.unwrap();
        let (ours, strangers) = (seen(Some(started)), seen(Some(started + 1)));
        let end = open(pid).unwrap().unwrap();
        let alive = (ours.is_alive(pid), strangers.is_alive(pid));
        child.kill().unwrap();
        assert!(has_ended(&end, Duration::from_secs(60)));
        let ended = (ours.is_alive(pid), ours.group(pid), strangers.group(pid));
        child.wait().unwrap();
        assert_eq!(alive, (true, false));
        assert_eq!(ended, (false, Some(pid), None), "nobody has asked how it ended");
        assert!(!ours.is_alive(pid) && ours.group(pid).is_none());
    }
}
