//! The guard process: it ends the command when we cannot, because we were killed, or stopped for longer than the lock
//! lasts.
//!
//! It is this program once more, in a process group of its own and with all signals blocked. Its stdin is a socket
//! through which it hears up to when the command may live; the end of that socket means that we are gone. It is told
//! the number of the command before that begins, and the command begins when it has answered. If the guard ends before
//! we do, another one takes its place.
//!
//! On stdout it has what shows the store that this client lives, where there is such a thing, so that a killed
//! client's lock is free only when its command is dead.

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

/// What makes this program a guard, as its only argument.
pub(crate) const ROLE: &str = "__guard";
/// Under which name `ps` shows it.
const NAME: &str = "lockkeeper-guard";
/// With which code a guard ends that has killed its command.
const HAS_KILLED: u8 = 3;
/// How long a guard that was dismissed may take to go.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// How long a signal to the command waits for the guard to have looked; one that is stopped does not look.
const LOOK: Duration = Duration::from_millis(250);
/// After how many guards in a row that have ended without a word there is none.
const TRIES: usize = 3;
/// How the variables begin by which the dynamic loader finds what this program needs.
const OF_LOADER: &str = "LD_";

/// The other end of a guard process. Dropping it kills the command.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    line: UnixStream,
    liveness: Option<File>,
    starts_nobody_else: bool,
    mark: u64,
    /// What it was told last.
    kill_at: Option<Duration>,
    /// How many answers it owes us.
    owed: usize,
    /// How many in a row, this one included, have not answered yet.
    silent: usize,
    /// There was no room for what it was to be told: it is stopped, and would act on old orders when it goes on.
    is_full: bool,
}

impl Guardian {
    /// Starts a guard. Until it is told of a command it waits for that, or for our end.
    pub(super) fn start(liveness: Option<File>, starts_nobody_else: bool, mark: u64) -> io::Result<Self> {
        let (line, far) = Line::pair()?;
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        let mut command = ThisProgram::new().command(NAME, ROLE);
        let of_loader =
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(OF_LOADER.as_bytes()));
        command.env_clear().envs(of_loader).process_group(0);
        let sign = liveness.as_ref().map(File::try_clone).transpose()?;
        command.stdin(OwnedFd::from(far)).stdout(sign.map_or_else(Stdio::null, Stdio::from)).stderr(Stdio::null());
        // The mask is inherited, so that no signal comes between its start and its first line.
        let process = signals::with_all_blocked(|| command.spawn())?;
        let (kill_at, owed, silent, is_full) = (None, 0, 1, false);
        let mut guard = Self { process, line, liveness, starts_nobody_else, mark, kill_at, owed, silent, is_full };
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

    /// What the environment of the command carries.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// This is the command, or is going to be.
    pub(super) fn watch(&mut self, command: Pid) {
        self.send(&Order::Watch(command));
        self.owed += 1;
    }

    /// Completes when it has answered all that was asked. Cancel safe.
    pub(super) async fn stands(&mut self) -> io::Result<()> {
        while self.owed > 0 {
            self.line.readable().await?;
            if self.has_ended() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Completes when there may be something new to know of it. Cancel safe.
    pub(super) async fn stirs(&self) {
        if self.line.readable().await.is_err() {
            pending().await
        }
    }

    /// Whether it has gone before it was dismissed, or is of no use any more. Takes the answers that are there.
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
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock || self.has_hung_up(),
            }
        }
    }

    /// The runtime may not have heard of it yet.
    fn has_hung_up(&self) -> bool {
        let mut line = [PollFd::new(&self.line, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut line, Some(&at_once)).is_ok() && line[0].revents().contains(PollFlags::HUP)
    }

    /// Starts another one in place of a guard that has ended, and tells it the same. `false` if the guard has done its
    /// work, and nothing is left of the command.
    pub(super) fn replace(&mut self, command: Option<Pid>, known: &KillSet) -> io::Result<bool> {
        if self.is_full {
            let _ = self.process.kill();
        }
        // It may have been reaped with others.
        let status = self.process.wait().ok();
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

    /// What is known of the command here, and that it is being ended if it is.
    fn pass_on(&mut self, command: Option<Pid>, known: &KillSet) {
        known.living().filter(|pid| Some(*pid) != command).for_each(|pid| self.send(&Order::Know(pid)));
        known.groups().for_each(|group| self.send(&Order::KnowGroup(group)));
        known.own().into_iter().for_each(|group| self.send(&Order::Own(group)));
        // A command that has ended itself is being ended.
        if known.is_ending() || command.is_none() {
            self.ask_to_look();
        }
    }

    /// Has it seen who belongs to the command, before some of them lose their parents.
    pub(super) async fn look(&mut self) {
        self.ask_to_look();
        let _ = timeout(LOOK, self.stands()).await;
    }

    fn ask_to_look(&mut self) {
        self.send(&Order::Look);
        self.owed += 1;
    }

    /// The command has outlived a signal that ends others.
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

    /// The command has ended: what it left in the background in order lives on. Whether the guard has killed it.
    pub(super) fn dismiss(mut self) -> bool {
        if self.is_full {
            let _ = self.process.kill();
        } else if !self.has_ended() {
            self.send(&Order::Leave);
            let _ = shutdown(&self.line, Shutdown::Write);
            // Somebody may have stopped it. Its number is its own until we ask how it ended.
            let _ = kill_process(self.pid(), Signal::CONT);
            if let Ok(guard) = pidfd_open(self.pid(), PidfdFlags::empty()) {
                // It has nothing left to do, and ends at once, unless its time has come to kill: what it cannot kill
                // must not keep us too.
                if !has_ended(&guard, TIME_LIMIT) {
                    return self.kill_at.is_some_and(|kill_at| now() >= kill_at);
                }
            }
        }
        self.process.wait().is_ok_and(has_killed)
    }

    /// A guard that was killed is not there to hear it, but the next one will be.
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

    /// It would find a deadline of long ago when it goes on, and none of those that there was no room for.
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
