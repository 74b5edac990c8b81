//! The command while it runs: what becomes of it, and what can be done to it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait, waitpgid, waitpid};
use tokio::signal::unix;

use super::doomed::Doomed;
use super::guard::Guardian;
use super::terminal::Terminal;

/// A process, the group that it leads, the guard over both, and the terminal that they may read.
#[derive(Debug)]
pub(crate) struct Running {
    leader: Pid,
    status: Option<ExitStatus>,
    stopped: Option<Signal>,
    ends: unix::Signal,
    guard: Guardian,
    terminal: Option<Terminal>,
    processes: Doomed,
}

/// What the command did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Ended(ExitStatus),
    /// It was stopped by this signal.
    Stopped(Signal),
}

impl Running {
    pub(super) fn new(leader: Pid, ends: unix::Signal, guard: Guardian, terminal: Option<Terminal>) -> Self {
        guard.watch(leader);
        let processes = Doomed::of(leader);
        if let Some(terminal) = &terminal {
            // If it has read the terminal already, it was stopped for it, and we shall hear of that.
            terminal.give(leader);
        }
        Self { leader, status: None, stopped: None, ends, guard, terminal, processes }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the command itself ends, and is reaped, or is stopped. Cancel safe; an end is told again and again.
    pub(super) async fn changed(&mut self) -> io::Result<Change> {
        loop {
            self.reap()?;
            if let Some(status) = self.status {
                return Ok(Change::Ended(status));
            }
            if let Some(signal) = self.stopped.take() {
                return Ok(Change::Stopped(signal));
            }
            self.ends.recv().await;
        }
    }

    /// Waits for the end of the command itself and reaps it. Cancel safe; later calls give the same answer.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Change::Ended(status) = self.changed().await? {
                return Ok(status);
            }
        }
    }

    /// Sends a signal to the whole group. That it may be gone already is no news.
    /// A group that is stopped goes on in order to end.
    pub(super) fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
        if matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT) {
            let _ = kill_process_group(self.leader, Signal::CONT);
        }
    }

    /// Whether there is a terminal from which somebody controls us.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether the command's group has the terminal, or should have it because our own does.
    pub(super) fn may_read_terminal(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_ours() || terminal.is_of(self.leader))
    }

    /// Lets a stopped group go on, in the foreground if we have that.
    pub(super) fn resume(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give(self.leader);
        }
        let _ = kill_process_group(self.leader, Signal::CONT);
    }

    /// Gives the command the terminal, if we were given it.
    pub(super) fn resume_in_foreground(&self) {
        if self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            self.resume();
        }
    }

    /// Takes the terminal back from the group.
    pub(super) fn leave_foreground(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.leader);
        }
    }

    /// Has the rest of our own group stopped as soon as we are.
    pub(super) fn stop_neighbours(&self) {
        self.guard.stop_neighbours();
    }

    /// The command may live up to this time of the guard's clock even if nothing more is heard of us.
    pub(super) fn extend(&self, kill_at: Duration) {
        self.guard.extend(kill_at);
    }

    /// Kills all that belongs to the command. Whether there was anything.
    pub(super) fn kill(&mut self) -> bool {
        drop(self.reap());
        self.processes.kill()
    }

    /// Whether anything of the command is left. What was seen once is found again, wherever it goes.
    pub(super) fn is_alive(&mut self) -> bool {
        drop(self.reap());
        self.processes.look()
    }

    /// Nothing more is expected of the command, and what it left in the background lives on.
    pub(super) fn dismiss(self) {
        self.leave_foreground();
        self.guard.dismiss();
    }

    /// Nothing of the command may be left: should there be, the guard goes on killing it after us.
    pub(super) fn abandon(self) {
        self.leave_foreground();
    }

    /// Reaps the command, wherever it went, and adopted orphans of its group; as PID 1, all orphans.
    fn reap(&mut self) -> io::Result<()> {
        while self.status.is_none()
            && let Some((pid, status)) = waitpid(Some(self.leader), WaitOptions::NOHANG | WaitOptions::UNTRACED)?
        {
            self.note(pid, status);
        }
        while let Ok(Some((pid, status))) = self.orphan() {
            self.note(pid, status);
        }
        Ok(())
    }

    fn orphan(&self) -> rustix::io::Result<Option<(Pid, WaitStatus)>> {
        if getpid().is_init() { wait(WaitOptions::NOHANG) } else { waitpgid(self.leader, WaitOptions::NOHANG) }
    }

    fn note(&mut self, pid: Pid, status: WaitStatus) {
        if pid != self.leader {
            return;
        }
        match status.stopping_signal() {
            Some(signal) => self.stopped = Signal::from_named_raw(signal),
            None => self.status = Some(ExitStatus::from_raw(status.as_raw())),
        }
    }
}
