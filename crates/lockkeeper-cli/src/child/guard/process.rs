//! The guard's main loop.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::HAS_KILLED;
use super::deadline::{Clocks, Deadline};
use super::order::{LENGTH, Order, now};
use crate::child::kill_set::KillSet;

/// How long the last steps of a process may take.
const LEAVING: Duration = Duration::from_millis(50);
/// How often the guard looks for the processes of the command. If a third process kills `run` and
/// processes of the command, the guard finds only the orphans that it saw before.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// The pause between two checks whether all processes are dead: the first pause, and the last
/// pause, when a process cannot be killed.
const LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Waits for orders, for the time to kill, or for the end of `run`.
pub(crate) fn keep() -> ExitCode {
    let Ok(mut post) = Post::new() else { return ExitCode::FAILURE };
    // Before the order that names the command, there is none.
    match (post.stand(), post.command.take()) {
        (Ending::Kill, Some(command)) => {
            kill(command);
            ExitCode::from(HAS_KILLED)
        }
        _ => ExitCode::SUCCESS,
    }
}

enum Ending {
    Dismissed,
    Kill,
}

struct Post {
    orders: UnixStream,
    /// The process that gives the orders.
    parent: Option<Pid>,
    mark: Option<u64>,
    /// The process whose children the orphans of an ending command become.
    adopter: Option<Pid>,
    /// The alarm fires at its time even if the machine was suspended meanwhile.
    alarm: OwnedFd,
    clocks: Clocks,
    deadline: Option<Deadline>,
    command: Option<KillSet>,
    /// When the last look around was.
    looked: Duration,
}

impl Post {
    fn new() -> io::Result<Self> {
        // std's stdin has a buffer that poll does not see, so this reads the descriptor itself.
        Self::at(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Makes a post that reads its orders from this socket.
    fn at(orders: UnixStream) -> io::Result<Self> {
        let alarm = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self {
            orders,
            parent: getppid(),
            mark: None,
            adopter: None,
            alarm,
            clocks: Clocks::new(),
            deadline: None,
            command: None,
            looked: now(),
        })
    }

    fn stand(&mut self) -> Ending {
        loop {
            let mut events =
                [PollFd::new(&self.orders, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
            // Without a command there is nothing to kill, however late it is: an order may still
            // name a command that is about to begin.
            let has_command = self.command.is_some();
            let (awaited, limit) =
                if has_command { (2, Timespec::try_from(LOOK_AROUND).ok()) } else { (1, None) };
            if let Err(error) = poll(&mut events[..awaited], limit.as_ref())
                && error != Errno::INTR
            {
                return Ending::Kill;
            }
            // All orders come first: after a pause, the guard finds old orders before the last one.
            if !events[0].revents().is_empty() {
                if let Some(ending) = self.obey() {
                    return ending;
                }
                self.look_around();
                continue;
            }
            if has_command && self.is_due() {
                return Ending::Kill;
            }
            self.look_around();
        }
    }

    /// Reads one order. The writer writes an order as a whole.
    fn obey(&mut self) -> Option<Ending> {
        let mut order = [0; LENGTH];
        match self.orders.read_exact(&mut order) {
            Ok(()) => match Order::read(order)? {
                Order::Mark(mark) => self.mark = Some(mark),
                Order::Adopted => self.adopter = self.parent,
                Order::Watch(pid) => {
                    self.command = Some(self.watch(pid));
                    self.answer();
                }
                Order::Know(pid) => match &mut self.command {
                    Some(command) => command.know(pid),
                    None => self.command = Some(self.watch(pid)),
                },
                // If `/proc` shows no process, the set has only the number of the group.
                Order::KnowGroup(group) => {
                    let mut command = self.command.take().unwrap_or_else(|| self.watch(group));
                    command.know_group(group);
                    self.command = Some(command);
                }
                Order::Own(group) => {
                    self.command.iter_mut().for_each(|command| command.set_own(group))
                }
                Order::KillAt(time) => {
                    self.deadline = Some(Deadline::new(time, self.clocks.read()));
                    self.set_alarm();
                }
                Order::Look => self.look(),
                Order::GoOn => self.command.iter_mut().for_each(KillSet::go_on),
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

    /// While the command is being ended, its orphans become siblings of the guard.
    fn watch(&self, command: Pid) -> KillSet {
        let mut command = KillSet::of(command);
        if let Some(mark) = self.mark {
            command = command.marked(mark);
        }
        match self.adopter {
            Some(adopter) => command.adopted_by(adopter),
            None => command,
        }
    }

    fn look(&mut self) {
        if let Some(command) = &mut self.command {
            command.look();
        }
        self.answer();
    }

    fn answer(&mut self) {
        // `run` may have ended, so that no process reads the answer.
        let _ = self.orders.write_all(&[0]);
    }

    /// Looks for the processes of the command, if a look is due.
    fn look_around(&mut self) {
        let left =
            self.deadline.map_or(Duration::MAX, |deadline| deadline.left(self.clocks.read()));
        if let Some(command) = &mut self.command
            && now().saturating_sub(self.looked) >= LOOK_AROUND
        {
            command.look_around(left);
            self.looked = now();
        }
    }

    /// Waits until `run` has ended, and has not only closed its descriptors. Between the two, the
    /// kernel continues a stopped group of the command and sends HUP to it.
    fn see_parent_out(&self) {
        let until = now() + LEAVING;
        while getppid() == self.parent && now() < until {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Returns whether the time to kill has come, and no order that arrived meanwhile says
    /// otherwise.
    fn is_due(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut orders = [PollFd::new(&self.orders, PollFlags::IN)];
        self.set_alarm() && !poll(&mut orders, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Sets the alarm for the deadline again, since the two use different clocks. Returns whether
    /// the time has come.
    fn set_alarm(&self) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let reading = self.clocks.read();
        let left = deadline.left(reading);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec::try_from(reading.shared.saturating_add(left)).unwrap_or(zero);
        let alarm = Itimerspec { it_interval: zero, it_value: at };
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &alarm);
        left.is_zero()
    }
}

/// Kills until no process is left; only then may the store learn that this client is gone.
fn kill(mut command: KillSet) {
    let mut pause = LOOK;
    while command.kill() {
        command.pause(pause);
        pause = (pause * 2).min(LAST_LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guard did not run between its look for orders and its look at the clock.
    #[test]
    fn an_extension_ordered_since_the_last_look_counts() {
        let (mut parent, orders) = UnixStream::pair().unwrap();
        let mut post = Post::at(orders).unwrap();
        assert!(!post.is_due());
        let mut order = |time| parent.write_all(&Order::KillAt(time).bytes()).unwrap();
        order(now());
        post.obey();
        assert!(post.is_due());
        order(now() + Duration::from_secs(1000));
        assert!(!post.is_due(), "nobody has read the order");
        post.obey();
        assert!(!post.is_due());
    }
}
