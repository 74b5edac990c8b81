//! How a command's processes are signalled and killed.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::KillSet;
use crate::child::processes::{Process, group_of};
use crate::child::seen::has_ended;

/// How many rounds stop the new processes and look for others, before all are killed. A process
/// that starts others faster than this meets the next kill.
const ROUNDS: usize = 4;

impl KillSet {
    /// Kills all remaining processes, and those found on the way. Returns whether any process
    /// lived.
    pub(in crate::child) fn kill(&mut self) -> bool {
        self.forget_strangers();
        self.is_ending = true;
        if !self.seen.get(&self.leader).is_some_and(|it| it.is_alive(self.leader)) {
            // The group of the command may have ended too, and its number may belong to another
            // group. The look takes a while on a busy machine, so the certain members are stopped
            // first.
            self.stop_those_who_are_known();
            self.search();
        }
        // A stopped process starts no process that leaves the group unseen, and leaves no orphans.
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

    fn stop_those_who_are_known(&self) {
        for (pid, seen) in &self.seen {
            let is_ours = Process::of(pid.as_raw_nonzero().get()).is_some_and(|it| self.has(&it));
            if let (true, Some(process)) = (is_ours, &seen.process) {
                let _ = pidfd_send_signal(process, Signal::STOP);
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.follow();
        // The kernel signals a group in one step, which no member escapes by forking.
        for group in self.groups_in_order() {
            let _ = kill_process_group(group, signal);
        }
        for (pid, seen) in &self.seen {
            seen.signal(*pid, signal);
        }
    }

    /// The command may have made itself the leader of a group. Follows it also if `/proc` shows no
    /// process.
    fn follow(&mut self) {
        if self.seen.get(&self.leader).is_some_and(|it| it.is_alive(self.leader))
            && group_of(self.leader) == Some(self.leader)
        {
            self.know_group(self.leader);
        }
    }

    /// The command's own group first, and then the older groups before the younger: a shell that
    /// saw the end of its job before its own signal would take its next step.
    fn groups_in_order(&self) -> Vec<Pid> {
        let own = group_of(self.leader);
        let mut groups: Vec<Pid> = self.groups().collect();
        groups.sort_by_key(|group| (Some(*group) != own, group.as_raw_nonzero()));
        groups
    }

    /// Sends a signal once to each process that the last look saw.
    pub(in crate::child) fn signal_once(&mut self, signal: Signal) {
        self.follow();
        for group in self.groups_in_order() {
            let _ = kill_process_group(group, signal);
        }
        for (pid, seen) in &self.seen {
            let group = Process::of(pid.as_raw_nonzero().get()).and_then(|process| process.group);
            if group.is_some_and(|group| !self.groups.contains_key(&group)) {
                seen.signal(*pid, signal);
            }
        }
        if signal == Signal::TERM {
            self.seen.values_mut().for_each(|seen| seen.was_signalled = true);
        }
    }

    /// Sends TERM to each process that the last look saw and that did not get it before.
    pub(in crate::child) fn terminate_the_new(&mut self) {
        for (pid, seen) in self.seen.iter_mut().filter(|(_, seen)| !seen.was_signalled) {
            seen.signal(*pid, Signal::TERM);
            seen.signal(*pid, Signal::CONT);
            seen.was_signalled = true;
        }
    }

    /// The processes that the last look saw.
    pub(in crate::child) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.seen.keys().copied()
    }

    /// The living processes that the last look saw.
    pub(in crate::child) fn living(&self) -> impl Iterator<Item = Pid> {
        self.seen.iter().filter(|(pid, seen)| seen.is_alive(**pid)).map(|(pid, _)| *pid)
    }

    /// Waits a moment for the end of the known processes.
    pub(in crate::child) fn pause(&self, limit: Duration) {
        match self.seen.values().find_map(|seen| seen.process.as_ref()) {
            Some(process) => drop(has_ended(process, limit)),
            None => thread::sleep(limit),
        }
    }
}
