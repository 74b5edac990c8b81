//! The running command: its state, and what `run` can do to it.

mod foreground;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait, waitpgid, waitpid,
};
use tokio::signal::unix;
use tokio::time::Instant;

use super::environment;
use super::guard::Guardian;
use super::kill_set::KillSet;
use super::orphans;
use super::processes::group_of;
use super::shim::Shim;
use super::terminal::Terminal;
use crate::event::Reporter;

/// How long a command may take to end by a HUP. After that, the command counts as going on.
const HANG_UP: Duration = Duration::from_secs(5);

/// A process, its group, the guard of both, and the terminal that they may read.
#[derive(Debug)]
pub(crate) struct Running {
    leader: Pid,
    /// The group that the command was started in, or that it leads.
    group: Pid,
    status: Option<ExitStatus>,
    stopped: Option<Signal>,
    ends: unix::Signal,
    guard: Guardian,
    /// The command has no guard, and will have none.
    is_unguarded: bool,
    /// The reason for the missing guard, until it is reported.
    no_guard: Option<io::Error>,
    /// When the command got a HUP, whose meaning for the command is unknown, and no other signal
    /// that ends a process.
    hung_up: Option<Instant>,
    /// The command got a signal that asks for its end.
    was_asked: bool,
    /// The shim waits for the word to begin.
    is_ready: bool,
    shim: Shim,
    terminal: Option<Terminal>,
    processes: KillSet,
    reporter: Arc<Reporter>,
}

/// A change of the command's state.
#[derive(Debug)]
pub(super) enum Change {
    Ended(ExitStatus),
    /// This signal stopped the command.
    Stopped(Signal),
    /// The guard has ended, and there is no other guard.
    Unguarded(io::Error),
}

impl Running {
    /// The running command of a shim that has not begun yet. Its guard gets the orders now.
    pub(super) fn new(
        shim: Shim,
        ends: unix::Signal,
        mut guard: Guardian,
        terminal: Option<Terminal>,
        reporter: Arc<Reporter>,
    ) -> Self {
        let leader = shim.pid();
        guard.watch(leader);
        let (mut processes, group) =
            (KillSet::of(leader).marked(guard.mark()), group_of(leader).unwrap_or(leader));
        if guard.starts_nobody_else() {
            processes = processes.adopted_by(getpid());
        }
        Self {
            leader,
            group,
            status: None,
            stopped: None,
            ends,
            guard,
            is_unguarded: false,
            no_guard: None,
            hung_up: None,
            was_asked: false,
            is_ready: false,
            shim,
            terminal,
            processes,
            reporter,
        }
    }

    /// Completes when the command can begin and its guard, if there is one, knows it. Cancel safe.
    pub(super) async fn ready(&mut self) -> io::Result<()> {
        loop {
            self.guarded().await.map_err(|error| {
                io::Error::new(error.kind(), format!("no guard process: {error}"))
            })?;
            // A guard that answered long ago may have ended since.
            if self.is_ready && !self.guard.has_ended() {
                return Ok(());
            }
            if !self.is_ready {
                self.shim.ready().await?;
                self.is_ready = true;
            }
        }
    }

    /// Completes when a guard has answered.
    async fn guarded(&mut self) -> io::Result<()> {
        loop {
            self.keep_guarded();
            if self.is_unguarded {
                return Err(self
                    .no_guard
                    .take()
                    .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
            }
            if self.guard.stands().await.is_ok() {
                return Ok(());
            }
        }
    }

    /// The command begins.
    pub(super) fn go(&self) -> io::Result<()> {
        self.shim.go()
    }

    /// Why the command could not be executed, as soon as that is clear; `None` if it was executed.
    /// Cancel safe.
    pub(super) async fn refusal(&self) -> Option<io::Error> {
        self.shim.refusal().await
    }

    /// The same of a command that has ended.
    pub(super) fn late_refusal(&self) -> Option<io::Error> {
        self.shim.late_refusal()
    }

    /// Ends a command that did not begin.
    pub(super) fn give_up(self) {
        self.shim.end();
        self.guard.dismiss();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the command itself ends and is reaped, or is stopped. Cancel safe; each later
    /// call returns an end again.
    pub(super) async fn changed(&mut self) -> io::Result<Change> {
        loop {
            self.reap()?;
            if let Some(status) = self.status {
                return Ok(Change::Ended(status));
            }
            if let Some(signal) = self.stopped.take() {
                return Ok(Change::Stopped(signal));
            }
            self.keep_guarded();
            if let Some(error) = self.no_guard.take() {
                return Ok(Change::Unguarded(error));
            }
            tokio::select! {
                _ = self.ends.recv() => {}
                () = self.guard.stirs(), if !self.is_unguarded => {}
            }
        }
    }

    /// Replaces a guard that has ended. The new guard gets all that is known here.
    fn keep_guarded(&mut self) {
        if self.is_unguarded || !self.guard.has_ended() {
            return;
        }
        let leader = self.status.is_none().then_some(self.leader);
        let replaced = self.guard.replace(leader, &self.processes);
        self.is_unguarded = !matches!(replaced, Ok(true));
        if !self.is_unguarded {
            self.processes.except(self.guard.pid());
            self.reporter
                .warn("the guard process ended before its time (it was killed?); another guard has replaced it");
        }
        self.no_guard = replaced.err();
    }

    /// Waits for the end of the command itself and reaps it. Cancel safe; later calls give the same
    /// answer.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Change::Ended(status) = self.changed().await? {
                return Ok(status);
            }
        }
    }

    /// The group that the command leads, if it has made itself a leader.
    fn group(&mut self) -> Pid {
        if self.status.is_none() && group_of(self.leader) == Some(self.leader) {
            self.group = self.leader;
        }
        self.group
    }

    /// Sends a signal to the command's group. A group that is already gone is no error. A signal
    /// that ends processes goes to all processes of the command, once the guard knows them too. A
    /// stopped process goes on in order to end.
    pub(super) async fn signal(&mut self, signal: Signal) {
        if matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT) {
            orphans::adopt();
            self.was_asked |= signal != Signal::HUP;
            self.hung_up = (!self.was_asked).then(Instant::now);
            self.guard.look().await;
            self.is_alive();
            self.processes.signal_once(signal);
            self.processes.signal_once(Signal::CONT);
        } else if self.status.is_none() {
            let _ = kill_process_group(self.group(), signal);
        }
    }

    /// Sends TERM to the processes that came to the command since the last TERM.
    pub(super) async fn terminate_the_new(&mut self) {
        self.guard.look().await;
        self.is_alive();
        self.processes.terminate_the_new();
    }

    /// Looks for new processes of the command.
    pub(super) fn look_around(&mut self) {
        if self.hung_up.is_some_and(|since| since.elapsed() > HANG_UP) {
            self.hung_up = None;
            orphans::leave_to_pid_1();
            self.processes.go_on();
            self.guard.go_on();
        }
        self.processes.look_around(self.guard.left());
        for pid in self.processes.ended_orphans() {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// The remaining processes of the command, or their groups if no process is visible.
    pub(super) fn left(&self) -> Vec<String> {
        let left: Vec<_> =
            self.processes.pids().map(|pid| pid.as_raw_nonzero().to_string()).collect();
        let groups =
            || self.processes.groups().map(|group| format!("group {}", group.as_raw_nonzero()));
        if left.is_empty() { groups().collect() } else { left }
    }

    /// The variable in the environment of the command's processes.
    pub(super) fn mark(&self) -> (&'static str, String) {
        environment::mark(self.guard.mark())
    }

    /// The command may live up to this time of the guard's clock even if `run` sends nothing more.
    pub(super) fn extend(&mut self, kill_at: Duration) {
        self.guard.extend(kill_at);
    }

    /// Kills all processes of the command. Returns whether any process was there.
    pub(super) fn kill(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.kill()
    }

    /// Returns whether any process of the command is left. A process that was seen once is found
    /// again, wherever it goes.
    pub(super) fn is_alive(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.look()
    }

    /// Returns whether a process that the last look saw is alive.
    pub(super) fn one_lives(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.living().next().is_some()
    }

    /// The command has ended in order, and its background processes live on. Returns whether the
    /// guard has killed the command.
    pub(super) fn dismiss(self) -> bool {
        orphans::leave_to_pid_1();
        self.retire_terminal();
        self.guard.dismiss()
    }

    /// Reaps the command, wherever it went, and adopted orphans of its groups; as PID 1, all
    /// orphans.
    fn reap(&mut self) -> io::Result<()> {
        self.processes.forget_strangers();
        // The group can be read only before the command is reaped.
        self.group();
        while self.status.is_none()
            && let Some((pid, status)) =
                waitpid(Some(self.leader), WaitOptions::NOHANG | WaitOptions::UNTRACED)?
        {
            self.note(pid, status);
        }
        let groups: Vec<_> = self.processes.groups().chain([self.group]).collect();
        for group in groups {
            while let Ok(Some((pid, status))) = orphan(group) {
                self.note(pid, status);
            }
        }
        Ok(())
    }

    fn note(&mut self, pid: Pid, status: WaitStatus) {
        if pid == self.guard.pid() {
            self.guard.was_reaped(ExitStatus::from_raw(status.as_raw()));
        }
        if pid != self.leader {
            return;
        }
        match status.stopping_signal() {
            Some(signal) => self.stopped = Signal::from_named_raw(signal),
            None => self.status = Some(ExitStatus::from_raw(status.as_raw())),
        }
    }
}

fn orphan(group: Pid) -> rustix::io::Result<Option<(Pid, WaitStatus)>> {
    if getpid().is_init() {
        wait(WaitOptions::NOHANG)
    } else {
        waitpgid(group, WaitOptions::NOHANG)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    use tokio::signal::unix::SignalKind;

    use super::*;
    use crate::child::seen::has_ended;
    use crate::event::Sinks;
    use crate::output::Verbosity;

    #[tokio::test]
    async fn r8_a_guard_that_ended_after_its_answer_is_replaced_before_the_start() {
        let ends = unix::signal(SignalKind::child()).unwrap();
        let mut guard = Guardian::start(None, false, 1).unwrap();
        guard.extend(crate::child::guard::now() + Duration::from_secs(1000));
        let shim = Shim::start("/bin/true".as_ref(), &["true".into()], |_| {}).unwrap();
        let reporter =
            Reporter::new(&["a".into()], Sinks::stderr(false).unwrap(), Verbosity::Errors);
        let mut running = Running::new(shim, ends, guard, None, reporter.into());
        running.ready().await.unwrap();
        let first = running.guard.pid();
        let process = pidfd_open(first, PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&process, Signal::KILL).unwrap();
        assert!(has_ended(&process, Duration::from_secs(60)));
        running.ready().await.unwrap();
        assert_ne!(running.guard.pid(), first);
        running.give_up();
    }
}
