//! The terminal that the command may read: its group has to be in the foreground, as a shell would have put it there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::processes::own_group;
use super::signals::stop_at_output;

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    own: Pid,
}

impl Terminal {
    /// `None` where there is none, as under cron, or where it is of another PID namespace, and our group with it.
    pub(super) fn of_this_process() -> Option<Self> {
        let own = own_group()?;
        let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
        let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        Some(Self { device, own })
    }

    /// Whether our own group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.is_of(self.own)
    }

    /// Whether this group is in the foreground.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// Puts the command's group into the foreground, if ours is there.
    ///
    /// From then on we are in the background, where a message to the terminal must not stop us.
    pub(super) fn give(&self, group: Pid) {
        if self.is_ours() {
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, group);
        }
    }

    /// Takes the foreground back from the command, or from what it gave it to and is dead.
    pub(super) fn take_back(&self, group: Pid) {
        let foreground = tcgetpgrp(&self.device);
        if foreground.is_ok_and(|it| it == group || (it != self.own && is_gone(it))) {
            // Whoever changes the foreground from the background is stopped, unless the signal is blocked.
            stop_at_output(false);
            let _ = tcsetpgrp(&self.device, self.own);
        }
        stop_at_output(true);
    }
}

/// One that may not be signalled, as those of sudo, is there.
fn is_gone(group: Pid) -> bool {
    test_kill_process_group(group) == Err(Errno::SRCH)
}
