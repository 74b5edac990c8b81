//! Processes that became children of `run` when their parents ended: the orphans of a command that
//! is killed, and all orphans if `run` is the first process of a container.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, getppid, set_child_subreaper, wait};
use tokio::signal::unix::{self, SignalKind};

use super::processes::{self, Process, group_of};
use super::seen::{has_ended, open};

/// Receives every end of a child.
#[derive(Debug)]
pub(crate) struct Orphans(unix::Signal);

impl Orphans {
    pub(crate) fn new() -> io::Result<Self> {
        unix::signal(SignalKind::child()).map(Self)
    }

    /// Reaps orphans as they end, and guards that outlived their commands, as long as it is polled.
    /// Must not run beside a command: it would take the command's exit status.
    pub(crate) async fn reap(&mut self) -> Infallible {
        loop {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            self.0.recv().await;
        }
    }
}

/// Makes orphans of the command children of `run`, which then finds and reaps them however lazy PID
/// 1 is. Call it only when needed: a daemon that the command starts may expect PID 1 as its parent.
pub(super) fn adopt() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// PID 1 gets the background processes of the next command again.
pub(super) fn leave_to_pid_1() {
    let _ = set_child_subreaper(None);
}

/// `run` has the orphans of a command as children while the command is being ended.
#[derive(Debug)]
pub(super) struct Adopter {
    pid: Pid,
    /// The group of `run`; no other member of this group belongs to the command.
    group: Option<Pid>,
    /// The children of `run` that are no orphans of the command.
    others: HashMap<Pid, Option<OwnedFd>>,
}

impl Adopter {
    /// The adopter before the command begins: all present children are no orphans of the command.
    pub(super) fn new(pid: Pid, leader: Pid) -> Self {
        let others = processes::children(pid).into_iter().filter(|child| child.pid != leader);
        let group = group_of(pid);
        Self {
            pid,
            group,
            others: others.filter_map(|child| Some((child.pid, open(child.pid)?))).collect(),
        }
    }

    /// This child of the adopter is no orphan either.
    pub(super) fn except(&mut self, child: Pid) {
        self.others.extend(open(child).map(|process| (child, process)));
    }

    /// The children of `run` that may be orphans of the command.
    pub(super) fn adopted(&self) -> Vec<Process> {
        let mut children = processes::children(self.pid);
        children.retain(|child| self.has(child));
        children
    }

    /// The children that have ended, and were not there before the command.
    pub(super) fn ended(&self) -> Vec<Pid> {
        let children = processes::children_and_zombies(self.pid).into_iter();
        children
            .filter(|child| child.has_ended && !self.others.contains_key(&child.pid))
            .map(|child| child.pid)
            .collect()
    }

    /// Returns whether a process is a child that may be an orphan of the command.
    pub(super) fn has(&self, process: &Process) -> bool {
        // If the adopter has ended, another process may have its number.
        let is_here = self.pid == getpid() || getppid() == Some(self.pid);
        let is_child = process.parent == Some(self.pid) && process.group != self.group;
        is_here && is_child && !self.is_other(process.pid)
    }

    fn is_other(&self, pid: Pid) -> bool {
        let lives = |other: &OwnedFd| !has_ended(other, Duration::ZERO);
        self.others.get(&pid).is_some_and(|other| other.as_ref().is_none_or(lives))
    }
}
