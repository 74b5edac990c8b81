//! What has to die with the lock: the command, its process group, and what descends from them.
//!
//! A group alone is not enough. A shell that controls jobs gives each job a group of its own, and `timeout` makes
//! itself the leader of one; they are found as descendants. What has left the group *and* lost its parent is a daemon
//! of its own, and is left alone.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal, test_kill_process_group,
};

use super::processes::{self, Process};

/// How often those that were just found are stopped, and others looked for, before all are killed. Whoever is started
/// faster than that is met by the next kill, if it can be.
const ROUNDS: usize = 4;

/// The processes of a command, in so far as they were seen.
#[derive(Debug)]
pub(super) struct Doomed {
    leader: Pid,
    /// The groups whose members all belong to it: the command's, and those that its descendants lead.
    groups: HashSet<Pid>,
    /// Descriptors rather than numbers: a number may be given to somebody else meanwhile. `None` where there are too
    /// many for that.
    seen: HashMap<Pid, Option<OwnedFd>>,
}

impl Doomed {
    /// Of a command that leads a process group, and is not reaped yet.
    pub(super) fn of(leader: Pid) -> Self {
        Self { leader, groups: HashSet::from([leader]), seen: open(leader).into_iter().collect() }
    }

    /// Looks who belongs to it now. What was seen once belongs to it for ever. Whether anything lives.
    pub(super) fn look(&mut self) -> bool {
        let searched = self.search();
        self.lives(searched)
    }

    fn lives(&self, searched: Option<bool>) -> bool {
        if searched.is_some() { !self.seen.is_empty() } else { test_kill_process_group(self.leader).is_ok() }
    }

    /// Whether somebody new was found outside of the command's group; `None` where one cannot look.
    fn search(&mut self) -> Option<bool> {
        let all = processes::all()?;
        // The number of a group is nobody else's while it has a member, but may be as soon as it has none.
        self.groups.retain(|group| all.iter().any(|process| process.group == Some(*group)));
        let (mut found, others): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|process| !process.has_ended).partition(|process| self.has(process));
        let mut children = HashMap::<_, Vec<_>>::new();
        for process in others {
            children.entry(process.parent).or_default().push(process);
        }
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            found.extend(children.remove(&Some(parent.pid)).unwrap_or_default());
            next += 1;
        }
        let is_new = |process: &Process| process.group != Some(self.leader) && !self.seen.contains_key(&process.pid);
        let grew = found.iter().any(is_new);
        self.groups.extend(found.iter().filter(|it| it.group == Some(it.pid)).map(|it| it.pid));
        let mut before = mem::take(&mut self.seen);
        self.seen = found
            .iter()
            .filter_map(|Process { pid, .. }| match before.remove(pid).flatten() {
                Some(process) if !has_ended(&process, Duration::ZERO) => Some((*pid, Some(process))),
                _ => open(*pid),
            })
            .collect();
        Some(grew)
    }

    fn has(&self, process: &Process) -> bool {
        process.group.is_some_and(|group| self.groups.contains(&group)) || self.is_seen_alive(process.pid)
    }

    fn is_seen_alive(&self, pid: Pid) -> bool {
        self.seen.get(&pid).and_then(Option::as_ref).is_some_and(|it| !has_ended(it, Duration::ZERO))
    }

    /// Kills all that is left, and what is found on the way. Whether anything lived.
    pub(super) fn kill(&mut self) -> bool {
        if !self.is_seen_alive(self.leader) {
            // Its group may have ended too, and the number be somebody else's. To look takes a while on a busy machine,
            // and those who are known for sure are not to go on until then.
            for process in self.seen.values().flatten() {
                let _ = pidfd_send_signal(process, Signal::STOP);
            }
            self.search();
        }
        // Whoever is stopped starts nobody who leaves the group unseen, and leaves no children without a parent.
        self.signal(Signal::STOP);
        let mut grew = self.search();
        let alive = self.lives(grew);
        for _ in 1..ROUNDS {
            if grew != Some(true) {
                break;
            }
            self.signal(Signal::STOP);
            grew = self.search();
        }
        self.signal(Signal::KILL);
        alive
    }

    fn signal(&self, signal: Signal) {
        // The kernel signals a group in one step, which no member escapes by forking.
        for group in &self.groups {
            let _ = kill_process_group(*group, signal);
        }
        for (pid, process) in &self.seen {
            let _ = match process {
                Some(process) => pidfd_send_signal(process, signal),
                None => kill_process(*pid, signal),
            };
        }
    }

    /// Waits a moment for the end of what was seen.
    pub(super) fn pause(&self, limit: Duration) {
        match self.seen.values().flatten().next() {
            Some(process) => drop(has_ended(process, limit)),
            None => thread::sleep(limit),
        }
    }
}

/// `None` if it is gone.
fn open(pid: Pid) -> Option<(Pid, Option<OwnedFd>)> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => None,
        result => Some((pid, result.ok())),
    }
}

/// Waits for the end of a process for at most this long.
pub(super) fn has_ended(process: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).ok();
    poll(&mut [PollFd::new(process, PollFlags::IN)], within.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn what_was_seen_once_dies_wherever_it_went() {
        let ((mut command, leader), (mut left, pid)) = (sleeper(), sleeper());
        let mut doomed = Doomed::of(leader);
        doomed.seen.extend(open(pid));
        assert!(doomed.look());
        assert!(doomed.kill());
        for child in [&mut command, &mut left] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(!doomed.kill());
    }

    #[test]
    fn a_group_without_members_is_nobodys() {
        let (mut command, leader) = sleeper();
        let mut doomed = Doomed::of(leader);
        assert!(doomed.kill());
        command.wait().unwrap();
        assert!(!doomed.look());
        assert!(doomed.groups.is_empty());
    }
}
