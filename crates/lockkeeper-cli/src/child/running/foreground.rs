//! The terminal of the running command: which group is in the foreground.

use std::os::unix::process::ExitStatusExt;

use rustix::process::{Signal, kill_process_group};

use super::super::terminal::Terminal;
use super::Running;

impl Running {
    /// Returns whether a terminal controls this process.
    pub(in crate::child) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns whether the command's group has the terminal, or should have it because the group of
    /// `run` has it.
    pub(in crate::child) fn may_read_terminal(&mut self) -> bool {
        let group = self.group();
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_ours() || terminal.is_of(group))
    }

    /// Returns whether the command's group has the terminal, so that typed signals reach the
    /// command and not `run`.
    pub(in crate::child) fn holds_terminal(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_of(self.group))
    }

    /// Returns whether a process in the group of `run` has lent the terminal, and gets it back.
    pub(in crate::child) fn awaits_a_neighbour(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_lent_by_a_neighbour)
    }

    /// The command was stopped for lack of the terminal.
    pub(in crate::child) fn ask_for_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.ask();
        }
    }

    /// Lets a stopped group go on, in the foreground if the command has asked for that and `run`
    /// has the terminal.
    pub(in crate::child) fn resume(&mut self) {
        let group = self.group();
        if let Some(terminal) = &self.terminal {
            terminal.give(group);
        }
        let _ = kill_process_group(group, Signal::CONT);
    }

    /// Lets a stopped group go on, if we are in the foreground.
    pub(in crate::child) fn resume_in_foreground(&mut self) {
        if self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            self.resume();
        }
    }

    /// Takes the terminal back from the group.
    pub(in crate::child) fn leave_foreground(&mut self) {
        let group = self.group();
        if let Some(terminal) = &self.terminal {
            terminal.take_back(group);
        }
    }

    /// Gives the terminal to the group of `run`, in which a process, such as the pager of a
    /// pipeline, was stopped because the command had it. `false` if the command does not have the
    /// terminal.
    pub(in crate::child) fn yield_terminal(&mut self) -> bool {
        let group = self.group();
        self.terminal.as_mut().is_some_and(|terminal| terminal.yield_to_neighbours(group))
    }

    /// Takes the terminal back after the end of the command.
    pub(super) fn retire_terminal(&self) {
        if let Some(terminal) = &self.terminal {
            let signal =
                self.status.and_then(|status| status.signal()).and_then(Signal::from_named_raw);
            terminal.retire(self.group, signal);
        }
    }
}
