//! What has to die with the lock: the command, its process group, and what descends from them.
//!
//! A group alone is not enough. A shell that controls jobs gives each job a group of its own, and `timeout` makes
//! itself the leader of one; they are found as descendants. What has left the group *and* lost its parent is a daemon
//! of its own, and is left alone.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal, test_kill_process_group,
};

use super::processes::{self, Process};

/// The processes of a command, in so far as they were seen.
#[derive(Debug)]
pub(super) struct Doomed {
    leader: Pid,
    /// Descriptors rather than numbers: a number may be given to somebody else meanwhile.
    seen: HashMap<Pid, OwnedFd>,
}

impl Doomed {
    /// Of a command that leads a process group, and is not reaped yet.
    pub(super) fn of(leader: Pid) -> Self {
        let mut doomed = Self { leader, seen: HashMap::new() };
        doomed.seen.extend(open(leader));
        doomed
    }

    /// Looks who belongs to it now. What was seen once belongs to it for ever. Whether anything lives.
    pub(super) fn look(&mut self) -> bool {
        let Some(all) = processes::all() else { return test_kill_process_group(self.leader).is_ok() };
        let living: Vec<&Process> = all.iter().filter(|process| !process.has_ended).collect();
        let mut found: Vec<Pid> =
            living.iter().filter(|process| self.has(process)).map(|process| process.pid).collect();
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            let children = living.iter().filter(|process| process.parent == Some(parent)).map(|process| process.pid);
            let new: Vec<Pid> = children.filter(|child| !found.contains(child)).collect();
            found.extend(new);
            next += 1;
        }
        self.seen.retain(|pid, _| found.contains(pid));
        for pid in &found {
            if !self.seen.contains_key(pid) {
                self.seen.extend(open(*pid));
            }
        }
        !found.is_empty()
    }

    fn has(&self, process: &Process) -> bool {
        process.group == Some(self.leader)
            || self.seen.get(&process.pid).is_some_and(|it| !has_ended(it, Duration::ZERO))
    }

    /// Kills all that is left, and what is found on the way. Whether anything lived.
    pub(super) fn kill(&mut self) -> bool {
        let alive = self.look();
        // The kernel kills a group in one step, which no member escapes by forking.
        let _ = kill_process_group(self.leader, Signal::KILL);
        for process in self.seen.values() {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        alive
    }

    /// Waits a moment for the end of what was seen.
    pub(super) fn pause(&self, limit: Duration) {
        if let Some(process) = self.seen.values().next() {
            has_ended(process, limit);
        }
    }
}

fn open(pid: Pid) -> Option<(Pid, OwnedFd)> {
    Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?))
}

fn has_ended(process: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).ok();
    poll(&mut [PollFd::new(process, PollFlags::IN)], within.as_ref()).is_ok_and(|ready| ready > 0)
}
