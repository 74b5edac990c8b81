//! The terminal. It stays with the process group of `run` until the command reads it or sets it;
//! this stops a command in the background (TTIN, TTOU). Until then Ctrl-C reaches the script around
//! `run` as it does without `run`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_current_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::processes;
use crate::this_process::{own_group, stop_at_output};

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    own: Pid,
    /// The command has asked for the terminal.
    is_wanted: bool,
}

impl Terminal {
    /// `None` if there is no terminal, as under cron, or if the terminal and the group of `run` are
    /// of another PID namespace.
    pub(super) fn of_this_process() -> Option<Self> {
        let own = own_group()?;
        let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
        let device =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        Some(Self { device, own, is_wanted: false })
    }

    /// Whether our own group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.is_of(self.own)
    }

    /// Whether this group is in the foreground.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// Returns whether another process in the group of `run`, such as another `run` of a script,
    /// has lent the terminal. That process lets the group go on when it gets the terminal back.
    pub(super) fn is_lent_by_a_neighbour(&self) -> bool {
        let (Ok(foreground), Some(all)) = (tcgetpgrp(&self.device), processes::all()) else {
            return false;
        };
        if is_gone(foreground) {
            // The other process is about to take the terminal back.
            return true;
        }
        let is_neighbour =
            |pid| all.iter().any(|it| Some(it.pid) == pid && it.group == Some(self.own));
        all.iter().any(|it| it.group == Some(foreground) && is_neighbour(it.parent))
    }

    /// The command was stopped because it does not have the terminal.
    pub(super) fn ask(&mut self) {
        self.is_wanted = true;
    }

    /// Puts the command's group into the foreground, if the command has asked for that and the
    /// group of `run` is there.
    ///
    /// From then on we are in the background, where a message to the terminal must not stop us.
    pub(super) fn give(&self, group: Pid) {
        if self.is_wanted && self.is_ours() {
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, group);
        }
    }

    /// Takes the foreground back from the command, or from a process group that got it from the
    /// command and is gone. Returns whether that group had the foreground.
    pub(super) fn take_back(&self, group: Pid) -> bool {
        let foreground = tcgetpgrp(&self.device);
        let is_theirs = foreground.is_ok_and(|it| it == group || (it != self.own && is_gone(it)));
        if is_theirs {
            // A change of the foreground from the background stops us, unless the signal is
            // blocked.
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, self.own);
        }
        stop_at_output(true);
        is_theirs
    }

    /// Takes the foreground back for a process in the group of `run`, and lets that group go on.
    /// The command has to ask again. `false` if the command does not have the terminal.
    pub(super) fn yield_to_neighbours(&mut self, group: Pid) -> bool {
        self.is_wanted = false;
        let is_taken = self.take_back(group);
        if is_taken {
            let _ = kill_current_process_group(Signal::CONT);
        }
        is_taken
    }

    /// Takes the foreground back from a command that has ended. The other processes in the group of
    /// `run` get the typed signal that ended the command. They go on if they were stopped because
    /// the command had the terminal, like the pager of a pipeline.
    pub(super) fn retire(&self, group: Pid, ended_by: Option<Signal>) {
        if !self.take_back(group) {
            return;
        }
        if let Some(signal @ (Signal::INT | Signal::QUIT)) = ended_by {
            processes::signal_neighbours(self.own, signal);
        }
        let _ = kill_current_process_group(Signal::CONT);
    }
}

/// A group that this user may not signal, like a group of sudo, exists.
fn is_gone(group: Pid) -> bool {
    test_kill_process_group(group) == Err(Errno::SRCH)
}
