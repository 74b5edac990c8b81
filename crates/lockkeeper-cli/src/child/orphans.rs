//! Processes that became our children when their parents ended: of a command that is killed, and, as the first process
//! of a container, all of them.

use std::convert::Infallible;
use std::io;

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use tokio::signal::unix::{self, SignalKind};

/// Hears of every end of a child.
#[derive(Debug)]
pub(crate) struct Orphans(unix::Signal);

impl Orphans {
    pub(crate) fn new() -> io::Result<Self> {
        unix::signal(SignalKind::child()).map(Self)
    }

    /// Reaps them as they end, for as long as it is polled, and guards that outlived their commands. Not beside a
    /// command, whose end it would take away.
    pub(crate) async fn reap(&mut self) -> Infallible {
        loop {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            self.0.recv().await;
        }
    }
}

/// Makes orphans of the group our children, so that they are reaped here however lazy PID 1 is. Not before it is
/// needed: a daemon that the command starts may expect PID 1 as its parent.
pub(super) fn adopt() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// What the next command leaves in the background is PID 1's again.
pub(super) fn leave_to_pid_1() {
    let _ = set_child_subreaper(None);
}
