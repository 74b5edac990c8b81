//! The guard process: it ends the command when we cannot, because we were killed, or stopped for longer than the lock
//! lasts.
//!
//! It is this program once more, in a process group of its own and with all signals blocked. Its stdin is a socket
//! through which it hears up to when the command may live; the end of that socket means that we are gone. It is told
//! the number of the command right after the start. If we are killed in that very moment, it finds the command by the
//! sequencer in its environment: the socket is closed in a forked child only by the exec that shows it there.
//!
//! On stdout it has what shows the store that this client lives, where there is such a thing, so that a killed
//! client's lock is free only when its command is dead.

mod order;
mod process;

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::doomed::has_ended;
use super::signals;
use order::Order;
pub(super) use order::now;
pub(crate) use process::keep;

/// What makes this program a guard, as its only argument.
pub(crate) const ROLE: &str = "__guard";
/// Under which name `ps` shows it.
const NAME: &str = "lockkeeper-guard";
/// How long a guard that was dismissed may take to go.
const PATIENCE: Duration = Duration::from_secs(1);
/// By this variable the guard recognises the command.
pub(super) const SEQUENCER: &str = "LOCKKEEPER_SEQUENCER";

/// The other end of a guard process. Dropping it kills the command.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    line: UnixStream,
}

impl Guardian {
    /// Starts a guard for a command that will have `sequencer` in its environment. Until it is told otherwise it waits
    /// for our end only.
    pub(super) fn start(sequencer: &str, liveness: Option<File>) -> io::Result<Self> {
        let (line, far) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(ROLE).env_clear().env(SEQUENCER, sequencer).process_group(0);
        command.stdin(OwnedFd::from(far)).stdout(liveness.map_or_else(Stdio::null, Stdio::from)).stderr(Stdio::null());
        // The mask is inherited, so that no signal comes between its start and its first line.
        let process = signals::with_all_blocked(|| command.spawn())?;
        Ok(Self { process, line })
    }

    /// The command was started.
    pub(super) fn watch(&self, command: Pid) {
        self.tell(&Order::Watch(command));
    }

    /// The command may live up to this time of [`now`]'s clock.
    pub(super) fn extend(&self, kill_at: Duration) {
        self.tell(&Order::KillAt(kill_at));
    }

    /// We are about to stop: the shell script or the pipeline that we are a part of has to stop too, but not before us.
    /// A shell that sees it stopped may continue it at once, and we would miss that.
    pub(super) fn stop_neighbours(&self) {
        self.tell(&Order::StopWith(getpid()));
    }

    /// The command has ended in order: what it left in the background lives on.
    pub(super) fn dismiss(mut self) {
        self.tell(&Order::Leave);
        let _ = self.line.shutdown(Shutdown::Write);
        let Ok(guard) = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()) else {
            drop(self.process.wait());
            return;
        };
        // Somebody may have stopped it.
        let _ = pidfd_send_signal(&guard, Signal::CONT);
        // It has nothing left to do, and ends at once, unless its time has come to kill: what it cannot kill must not
        // keep us too.
        if has_ended(&guard, PATIENCE) {
            let _ = self.process.wait();
        }
    }

    /// A guard that was killed is not there to hear it, and one that is stopped has not read what it was told before:
    /// neither can be helped.
    fn tell(&self, order: &Order) {
        let _ = (&self.line).write_all(&order.bytes());
    }
}
