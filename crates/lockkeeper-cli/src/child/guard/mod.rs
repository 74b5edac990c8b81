//! The guard process. It ends the command when `run` cannot: `run` was killed, or was stopped for
//! longer than the lock lasts.
//!
//! The guard is this program again, in a process group of its own and with all signals blocked. Its
//! stdin is a socket. Through the socket `run` sends the time up to which the command may live; the
//! end of the socket means that `run` is gone. `run` sends the process id of the command before the
//! command begins, and the command begins after the guard's answer. If the guard ends before `run`
//! does, `run` starts another guard.
//!
//! The guard's stdout is the liveness file, if the store has such a file. So the lock of a killed
//! client is free only when its command is dead.

mod deadline;
mod order;
mod process;

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Line;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::kill_set::KillSet;
use super::seen::has_ended;
use super::signals;
use super::this_program::ThisProgram;
use order::Order;
pub(super) use order::now;
pub(crate) use process::keep;

/// The only argument of this program when it is a guard.
pub(crate) const ROLE: &str = "__guard";
/// The name of a guard in `ps`.
const NAME: &str = "lockkeeper-guard";
/// The exit code of a guard that has killed its command.
const HAS_KILLED: u8 = 3;
/// How long a guard that was dismissed may take to go.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// How long a signal to the command waits for the guard to have looked; one that is stopped does
/// not look.
const LOOK: Duration = Duration::from_millis(250);
/// `run` gives up after this many guards in a row that ended without an answer.
const TRIES: usize = 3;
/// The prefix of the variables by which the dynamic loader finds the libraries of this program.
const OF_LOADER: &str = "LD_";

/// The handle of a guard process. Dropping it kills the command.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    /// How the guard ended, if `run` has reaped it with other children.
    reaped: Option<ExitStatus>,
    line: UnixStream,
    liveness: Option<File>,
    starts_nobody_else: bool,
    mark: u64,
    /// The last deadline that the guard got.
    kill_at: Option<Duration>,
    /// How many answers of the guard are outstanding.
    owed: usize,
    /// How many in a row, this one included, have not answered yet.
    silent: usize,
    /// The socket had no room for an order: the guard is stopped, and would act on old orders when
    /// it goes on.
    is_full: bool,
}

impl Guardian {
    /// Starts a guard. The guard waits for a command, or for the end of `run`.
    pub(super) fn start(
        liveness: Option<File>,
        starts_nobody_else: bool,
        mark: u64,
    ) -> io::Result<Self> {
        let (line, far) = Line::pair()?;
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        let mut command = ThisProgram::new().command(NAME, ROLE);
        let of_loader = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(OF_LOADER.as_bytes()));
        command.env_clear().envs(of_loader).process_group(0);
        let sign = liveness.as_ref().map(File::try_clone).transpose()?;
        command
            .stdin(OwnedFd::from(far))
            .stdout(sign.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null());
        // The guard inherits the signal mask, so that no signal comes between its start and its
        // first line.
        let process = signals::with_all_blocked(|| command.spawn())?;
        let (reaped, kill_at, owed, silent, is_full) = (None, None, 0, 1, false);
        let mut guard = Self {
            process,
            reaped,
            line,
            liveness,
            starts_nobody_else,
            mark,
            kill_at,
            owed,
            silent,
            is_full,
        };
        guard.send(&Order::Mark(mark));
        if starts_nobody_else {
            guard.send(&Order::Adopted);
        }
        Ok(guard)
    }

    /// Whether every other child of this process is an orphan of a command.
    pub(super) fn starts_nobody_else(&self) -> bool {
        self.starts_nobody_else
    }

    /// The mark in the environment of the command.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The guard was reaped with other children, as the first process of a container reaps them.
    pub(super) fn was_reaped(&mut self, status: ExitStatus) {
        self.reaped = Some(status);
    }

    /// Waits for the end of the guard.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.reaped.or_else(|| self.process.wait().ok())
    }

    /// Kills a guard that is of no use. The number of a reaped guard may be another process's.
    fn kill(&mut self) {
        if self.reaped.is_none() {
            let _ = self.process.kill();
        }
    }

    /// This is the command, or is going to be.
    pub(super) fn watch(&mut self, command: Pid) {
        self.send(&Order::Watch(command));
        self.owed += 1;
    }

    /// Completes when the guard has answered all requests. Cancel safe.
    pub(super) async fn stands(&mut self) -> io::Result<()> {
        while self.owed > 0 {
            self.line.readable().await?;
            if self.has_ended() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Completes when the state of the guard may have changed. Cancel safe.
    pub(super) async fn stirs(&self) {
        if self.line.readable().await.is_err() {
            pending().await
        }
    }

    /// Returns whether the guard has ended before its dismissal, or is of no use any more. Reads
    /// the pending answers.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.is_full {
            return true;
        }
        let mut answer = [0];
        loop {
            match self.line.try_read(&mut answer) {
                Ok(0) => return true,
                Ok(_) => {
                    self.owed = self.owed.saturating_sub(1);
                    self.silent = 0;
                }
                Err(error) => {
                    return error.kind() != io::ErrorKind::WouldBlock || self.has_hung_up();
                }
            }
        }
    }

    /// The runtime may not have noticed the end of the socket yet.
    fn has_hung_up(&self) -> bool {
        let mut line = [PollFd::new(&self.line, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut line, Some(&at_once)).is_ok() && line[0].revents().contains(PollFlags::HUP)
    }

    /// Starts another guard after one has ended, and sends the new guard the same orders. Returns
    /// `false` if the guard has done its work and nothing is left of the command.
    pub(super) fn replace(&mut self, command: Option<Pid>, known: &KillSet) -> io::Result<bool> {
        if self.is_full {
            self.kill();
        }
        let status = self.ended();
        if status.is_some_and(has_killed) {
            return Ok(false);
        }
        if self.silent >= TRIES {
            return Err(io::Error::other(format!("it does not stand up ({status:?})")));
        }
        let mut next = Self::start(self.liveness.take(), self.starts_nobody_else, self.mark)?;
        next.silent += self.silent;
        if let Some(kill_at) = self.kill_at {
            next.extend(kill_at);
        }
        if let Some(command) = command {
            next.watch(command);
        }
        next.pass_on(command, known);
        *self = next;
        Ok(true)
    }

    /// Sends the new guard the known facts about the command, also whether the command is being
    /// ended.
    fn pass_on(&mut self, command: Option<Pid>, known: &KillSet) {
        known
            .living()
            .filter(|pid| Some(*pid) != command)
            .for_each(|pid| self.send(&Order::Know(pid)));
        known.groups().for_each(|group| self.send(&Order::KnowGroup(group)));
        known.own().into_iter().for_each(|group| self.send(&Order::Own(group)));
        // A command that has ended by itself is being ended too.
        if known.is_ending() || command.is_none() {
            self.ask_to_look();
        }
    }

    /// Makes the guard look for the processes of the command, before some of them lose their
    /// parents.
    pub(super) async fn look(&mut self) {
        self.ask_to_look();
        let _ = timeout(LOOK, self.stands()).await;
    }

    fn ask_to_look(&mut self) {
        self.send(&Order::Look);
        self.owed += 1;
    }

    /// The command has outlived a signal that normally ends a process.
    pub(super) fn go_on(&mut self) {
        self.send(&Order::GoOn);
    }

    /// The command may live up to this time of [`now`]'s clock.
    pub(super) fn extend(&mut self, kill_at: Duration) {
        self.kill_at = Some(kill_at);
        self.send(&Order::KillAt(kill_at));
    }

    /// How long the command may still live as far as the guard knows.
    pub(super) fn left(&self) -> Duration {
        self.kill_at.map_or(Duration::MAX, |kill_at| kill_at.saturating_sub(now()))
    }

    /// The command has ended; its background processes may live on. Returns whether the guard has
    /// killed the command.
    pub(super) fn dismiss(mut self) -> bool {
        if self.is_full {
            self.kill();
        } else if self.reaped.is_none() && !self.has_ended() {
            self.send(&Order::Leave);
            let _ = shutdown(&self.line, Shutdown::Write);
            // Another process may have stopped the guard. The guard keeps its process id until
            // `run` reaps it.
            let _ = kill_process(self.pid(), Signal::CONT);
            if let Ok(guard) = pidfd_open(self.pid(), PidfdFlags::empty()) {
                // The guard has no work left and ends at once, unless it has begun to kill: a
                // process that the guard cannot kill must not delay `run`.
                if !has_ended(&guard, TIME_LIMIT) {
                    return self.kill_at.is_some_and(|kill_at| now() >= kill_at);
                }
            }
        }
        self.ended().is_some_and(has_killed)
    }

    /// A guard that was killed does not read the order, but its successor gets the order.
    fn send(&mut self, order: &Order) {
        let written = rustix::io::write(&self.line, &order.bytes());
        self.is_full |= written == Err(Errno::AGAIN);
    }
}

fn has_killed(status: ExitStatus) -> bool {
    status.code() == Some(HAS_KILLED.into())
}

#[cfg(test)]
mod tests {
    use rustix::process::pidfd_send_signal;

    use super::*;

    /// A guard that goes on late would find an old deadline; the orders for which the socket had no
    /// room are lost.
    #[tokio::test]
    async fn r8_a_guard_that_was_stopped_for_too_long_is_replaced() {
        let mut guard = Guardian::start(None, false, 1).unwrap();
        let stopped = pidfd_open(guard.pid(), PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&stopped, Signal::STOP).unwrap();
        let full = (0..100_000).find(|_| {
            guard.extend(now());
            guard.has_ended()
        });
        assert!(full.is_some());
        guard.extend(now() + Duration::from_secs(1000));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let nobody = Pid::from_child(&ended);
        ended.wait().unwrap();
        assert!(guard.replace(None, &KillSet::of(nobody)).unwrap());
        assert!(has_ended(&stopped, Duration::ZERO) && !guard.has_ended());
        assert!(!guard.dismiss());
    }
}
