//! The guard's own life.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::SEQUENCER;
use super::order::{LENGTH, Order, now};
use crate::child::doomed::Doomed;
use crate::child::processes::{self, Process};

/// How long who is about to stop may take.
const STOP: Duration = Duration::from_millis(500);
/// How long the last steps of a process may take.
const LEAVING: Duration = Duration::from_millis(50);
/// How long an exec may take that has closed descriptors already.
const START: Duration = Duration::from_secs(1);
/// Between two looks whether everything is dead: at first, and at last, when something cannot be killed.
const LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Waits for orders, for the time to kill, or for the end of who gives the orders.
pub(crate) fn keep() -> ExitCode {
    let Ok(mut post) = Post::new() else { return ExitCode::FAILURE };
    match post.stand() {
        Ending::Dismissed => {}
        Ending::Kill => match post.command.take() {
            Some(command) => kill(command),
            None => kill_unknown(),
        },
    }
    ExitCode::SUCCESS
}

enum Ending {
    Dismissed,
    Kill,
}

struct Post {
    orders: UnixStream,
    /// Who gives them.
    parent: Option<Pid>,
    /// Goes off at its time even if the machine was suspended meanwhile.
    alarm: OwnedFd,
    kill_at: Option<Duration>,
    command: Option<Doomed>,
}

impl Post {
    fn new() -> io::Result<Self> {
        let alarm = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        // Not through std's stdin, whose buffer poll knows nothing of.
        let orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { orders, parent: getppid(), alarm, kill_at: None, command: None })
    }

    fn stand(&mut self) -> Ending {
        loop {
            let mut events = [PollFd::new(&self.orders, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
            if let Err(error) = poll(&mut events, None)
                && error != Errno::INTR
            {
                return Ending::Kill;
            }
            // All orders first: whoever was kept from reading them finds old ones before the last.
            if !events[0].revents().is_empty() {
                if let Some(ending) = self.obey() {
                    return ending;
                }
                continue;
            }
            if self.kill_at.is_some_and(|time| time <= now()) {
                return Ending::Kill;
            }
        }
    }

    /// Reads one order; whoever writes it writes it whole.
    fn obey(&mut self) -> Option<Ending> {
        let mut order = [0; LENGTH];
        match self.orders.read_exact(&mut order) {
            Ok(()) => match Order::read(order)? {
                Order::Watch(pid) => self.command = Some(Doomed::of(pid)),
                Order::KillAt(time) => self.set(time),
                Order::StopWith(pid) => stop_neighbours(pid),
                Order::Leave => return Some(Ending::Dismissed),
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                self.see_parent_out();
                return Some(Ending::Kill);
            }
        }
        None
    }

    /// Waits until who gave the orders has ended, rather than closed its descriptors on the way there. In between the
    /// kernel continues the command's group, and sends it HUP, if that is stopped.
    fn see_parent_out(&self) {
        let until = now() + LEAVING;
        while getppid() == self.parent && now() < until {
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn set(&mut self, time: Duration) {
        self.kill_at = Some(time);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec::try_from(time).unwrap_or(zero);
        let _ =
            timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: at });
    }
}

/// Stops the rest of a process's group, once that is stopped; it does so at once.
fn stop_neighbours(first: Pid) {
    let until = now() + STOP;
    while now() < until {
        match Process::of(first.as_raw_nonzero().get()) {
            Some(process) if process.is_stopped => return process.signal_neighbours(Signal::TSTP),
            Some(process) if !process.has_ended => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// Kills until nothing is left; only then the store may hear that this client is gone.
fn kill(mut command: Doomed) {
    let mut pause = LOOK;
    while command.kill() {
        command.pause(pause);
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// We were not told of any command, but one may have been started that very moment.
fn kill_unknown() {
    let Some(sequencer) = std::env::var_os(SEQUENCER) else { return };
    let mark = [SEQUENCER.as_bytes(), b"=", sequencer.as_encoded_bytes()].concat();
    let until = now() + START;
    loop {
        let Starting { ours, nameless } = Starting::of(&mark);
        let found = !ours.is_empty();
        ours.into_iter().map(Doomed::of).for_each(kill);
        if !found && (!nameless || now() >= until) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Who may be the command.
struct Starting {
    /// Processes that lead a group and have our mark in their environment.
    ours: Vec<Pid>,
    /// There is one that has no environment. In the middle of an exec it has none yet, though its descriptors are
    /// closed already.
    nameless: bool,
}

impl Starting {
    fn of(mark: &[u8]) -> Self {
        let (own, session) = (getpid(), processes::own_session());
        let leaders = processes::all().unwrap_or_default().into_iter();
        let leaders = leaders.filter(|process| process.pid != own && process.group == Some(process.pid));
        let mut starting = Self { ours: Vec::new(), nameless: false };
        for process in leaders.filter(|process| !process.has_ended) {
            let Ok(environment) = fs::read(format!("/proc/{}/environ", process.pid.as_raw_nonzero())) else { continue };
            starting.nameless |= environment.is_empty() && process.session == session;
            if environment.split(|byte| *byte == 0).any(|line| line == mark) {
                starting.ours.push(process.pid);
            }
        }
        starting
    }
}
