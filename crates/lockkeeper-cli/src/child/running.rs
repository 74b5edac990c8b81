//! The command while it runs: what becomes of it, and what can be done to it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait, waitpgid, waitpid};
use tokio::signal::unix;
use tokio::time::Instant;

use super::guard::Guardian;
use super::kill_set::KillSet;
use super::orphans;
use super::processes::group_of;
use super::shim::Shim;
use super::terminal::Terminal;
use crate::event::Reporter;

/// How long a command that gets a HUP may take to end by it. After that it counts as one that goes on.
const HANG_UP: Duration = Duration::from_secs(5);

/// A process, its group, the guard over both, and the terminal that they may read.
#[derive(Debug)]
pub(crate) struct Running {
    leader: Pid,
    /// The one that it was started in, or that it leads.
    group: Pid,
    status: Option<ExitStatus>,
    stopped: Option<Signal>,
    ends: unix::Signal,
    guard: Guardian,
    /// There is no guard, and will be none.
    is_unguarded: bool,
    /// Why, until somebody has heard it.
    no_guard: Option<io::Error>,
    /// When it got a HUP, of which nobody knows what that tells it, and no other signal that ends.
    hung_up: Option<Instant>,
    /// It got one that asks for its end.
    was_asked: bool,
    /// The shim waits for the word to begin.
    is_ready: bool,
    shim: Shim,
    terminal: Option<Terminal>,
    processes: KillSet,
    reporter: Arc<Reporter>,
}

/// What the command did.
#[derive(Debug)]
pub(super) enum Change {
    Ended(ExitStatus),
    /// It was stopped by this signal.
    Stopped(Signal),
    /// Its guard has ended, and there is no other one.
    Unguarded(io::Error),
}

impl Running {
    /// Of a shim that has not begun yet, whose guard hears of it now.
    pub(super) fn new(
        shim: Shim,
        ends: unix::Signal,
        mut guard: Guardian,
        terminal: Option<Terminal>,
        reporter: Arc<Reporter>,
    ) -> Self {
        let leader = shim.pid();
        guard.watch(leader);
        let (mut processes, group) = (KillSet::of(leader).marked(guard.mark()), group_of(leader).unwrap_or(leader));
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

    /// Completes when the command can begin, and a guard that is there knows it. Cancel safe.
    pub(super) async fn ready(&mut self) -> io::Result<()> {
        loop {
            self.guarded().await.map_err(|error| io::Error::new(error.kind(), format!("no guard process: {error}")))?;
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
                return Err(self.no_guard.take().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
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

    /// Why the command could not be executed, as soon as that is clear; `None` when it was. Cancel safe.
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

    /// Puts another guard in place of one that has ended, which knows what is known here.
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

    /// Waits for the end of the command itself and reaps it. Cancel safe; later calls give the same answer.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Change::Ended(status) = self.changed().await? {
                return Ok(status);
            }
        }
    }

    /// The group that the command leads, if it has made itself the leader of one.
    fn group(&mut self) -> Pid {
        if self.status.is_none() && group_of(self.leader) == Some(self.leader) {
            self.group = self.leader;
        }
        self.group
    }

    /// Sends a signal to the command's group; that it may be gone already is no news. One that ends is for all that
    /// belongs to the command, and is sent once the guard knows them too. Whoever is stopped goes on in order to end.
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

    /// Sends TERM to those who came to belong to the command since it was sent before.
    pub(super) async fn terminate_the_new(&mut self) {
        self.guard.look().await;
        self.is_alive();
        self.processes.terminate_the_new();
    }

    /// Looks for those who came to belong to the command since.
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

    /// What is left of the command: processes, or their groups where nobody is shown.
    pub(super) fn left(&self) -> Vec<String> {
        let left: Vec<_> = self.processes.pids().map(|pid| pid.as_raw_nonzero().to_string()).collect();
        let groups = || self.processes.groups().map(|group| format!("group {}", group.as_raw_nonzero()));
        if left.is_empty() { groups().collect() } else { left }
    }

    /// Whether there is a terminal from which somebody controls us.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether the command's group has the terminal, or should have it because our own does.
    pub(super) fn may_read_terminal(&mut self) -> bool {
        let group = self.group();
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_ours() || terminal.is_of(group))
    }

    /// Whether the command's group has the terminal, so that what is typed reaches the command and not us.
    pub(super) fn holds_terminal(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_of(self.group))
    }

    /// Whether a neighbour has given the terminal away, and gets it back.
    pub(super) fn awaits_a_neighbour(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_lent_by_a_neighbour)
    }

    /// The command was stopped for lack of the terminal.
    pub(super) fn ask_for_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.ask();
        }
    }

    /// Lets a stopped group go on, in the foreground if the command has asked for that and we have it.
    pub(super) fn resume(&mut self) {
        let group = self.group();
        if let Some(terminal) = &self.terminal {
            terminal.give(group);
        }
        let _ = kill_process_group(group, Signal::CONT);
    }

    /// Lets a stopped group go on, if we are in the foreground.
    pub(super) fn resume_in_foreground(&mut self) {
        if self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            self.resume();
        }
    }

    /// Takes the terminal back from the group.
    pub(super) fn leave_foreground(&mut self) {
        let group = self.group();
        if let Some(terminal) = &self.terminal {
            terminal.take_back(group);
        }
    }

    /// Gives the terminal to our own group, of which somebody, such as the pager of a pipeline, was stopped for lack of
    /// it. `false` if the command has not got it.
    pub(super) fn yield_terminal(&mut self) -> bool {
        let group = self.group();
        self.terminal.as_mut().is_some_and(|terminal| terminal.yield_to_neighbours(group))
    }

    fn retire_terminal(&self) {
        if let Some(terminal) = &self.terminal {
            let signal = self.status.and_then(|status| status.signal()).and_then(Signal::from_named_raw);
            terminal.retire(self.group, signal);
        }
    }

    /// The command may live up to this time of the guard's clock even if nothing more is heard of us.
    pub(super) fn extend(&mut self, kill_at: Duration) {
        self.guard.extend(kill_at);
    }

    /// Kills all that belongs to the command. Whether there was anything.
    pub(super) fn kill(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.kill()
    }

    /// Whether anything of the command is left. What was seen once is found again, wherever it goes.
    pub(super) fn is_alive(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.look()
    }

    /// Whether one of those who were there at the last look lives.
    pub(super) fn one_lives(&mut self) -> bool {
        drop(self.reap());
        self.keep_guarded();
        self.processes.living().next().is_some()
    }

    /// Nothing more is expected of the command, and what it left in the background lives on. Whether the guard has
    /// killed it.
    pub(super) fn dismiss(self) -> bool {
        orphans::leave_to_pid_1();
        self.retire_terminal();
        self.guard.dismiss()
    }

    /// Reaps the command, wherever it went, and adopted orphans of its groups; as PID 1, all orphans.
    fn reap(&mut self) -> io::Result<()> {
        self.processes.forget_strangers();
        // As long as it can be asked for.
        self.group();
        while self.status.is_none()
            && let Some((pid, status)) = waitpid(Some(self.leader), WaitOptions::NOHANG | WaitOptions::UNTRACED)?
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
    if getpid().is_init() { wait(WaitOptions::NOHANG) } else { waitpgid(group, WaitOptions::NOHANG) }
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
    async fn r8_a_guard_that_has_answered_and_ended_is_replaced_before_the_start() {
        let ends = unix::signal(SignalKind::child()).unwrap();
        let mut guard = Guardian::start(None, false, 1).unwrap();
        guard.extend(crate::child::guard::now() + Duration::from_secs(1000));
        let shim = Shim::start("/bin/true".as_ref(), &["true".into()], |_| {}).unwrap();
        let reporter = Reporter::new(&["a".into()], Sinks::stderr(false).unwrap(), Verbosity::Errors);
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
