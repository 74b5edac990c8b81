//! The terminal. It stays with our own process group until the command asks for it by reading it or setting it, which
//! stops a command in the background (TTIN, TTOU): until then Ctrl-C reaches the script around us as it does without us.

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
    /// The command has asked for it.
    is_wanted: bool,
}

impl Terminal {
    /// `None` where there is none, as under cron, or where it is of another PID namespace, and our group with it.
    pub(super) fn of_this_process() -> Option<Self> {
        let own = own_group()?;
        let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
        let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
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

    /// Whether a neighbour in our own group, such as another `run` of a script, has given it away. The neighbour lets our
    /// group go on when it gets the terminal back.
    pub(super) fn is_lent_by_a_neighbour(&self) -> bool {
        let (Ok(foreground), Some(all)) = (tcgetpgrp(&self.device), processes::all()) else { return false };
        if is_gone(foreground) {
            // The neighbour is about to take it back.
            return true;
        }
        let is_neighbour = |pid| all.iter().any(|it| Some(it.pid) == pid && it.group == Some(self.own));
        all.iter().any(|it| it.group == Some(foreground) && is_neighbour(it.parent))
    }

    /// The command was stopped because it has not got the terminal.
    pub(super) fn ask(&mut self) {
        self.is_wanted = true;
    }

    /// Puts the command's group into the foreground, if it has asked for that and ours is there.
    ///
    /// From then on we are in the background, where a message to the terminal must not stop us.
    pub(super) fn give(&self, group: Pid) {
        if self.is_wanted && self.is_ours() {
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, group);
        }
    }

    /// Takes the foreground back from the command, or from a process group that the command gave it to and that is
    /// gone. Whether the foreground was there.
    pub(super) fn take_back(&self, group: Pid) -> bool {
        let foreground = tcgetpgrp(&self.device);
        let is_theirs = foreground.is_ok_and(|it| it == group || (it != self.own && is_gone(it)));
        if is_theirs {
            // A change of the foreground from the background stops us, unless the signal is blocked.
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, self.own);
        }
        stop_at_output(true);
        is_theirs
    }

    /// Takes the foreground back for somebody in our own group, and lets that group go on. The command has to ask again.
    /// `false` if the command has not got it.
    pub(super) fn yield_to_neighbours(&mut self, group: Pid) -> bool {
        self.is_wanted = false;
        let is_taken = self.take_back(group);
        if is_taken {
            let _ = kill_current_process_group(Signal::CONT);
        }
        is_taken
    }

    /// Takes the foreground back from a command that has ended. The rest of our own group hears of the signal that was
    /// typed and ended the command, and goes on if it was stopped because the command had the terminal, as the pager
    /// of a pipeline.
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

/// One that may not be signalled, as those of sudo, is there.
fn is_gone(group: Pid) -> bool {
    test_kill_process_group(group) == Err(Errno::SRCH)
}
