//! The guard's own life.

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
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::HAS_KILLED;
use super::deadline::{Clocks, Deadline};
use super::order::{LENGTH, Order, now};
use crate::child::kill_set::KillSet;

/// How long the last steps of a process may take.
const LEAVING: Duration = Duration::from_millis(50);
/// How often it is looked who belongs to the command: of those who lose their parents when somebody kills more than
/// `run`, only who was seen before is found.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// Between two looks whether everything is dead: at first, and at last, when something cannot be killed.
const LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Waits for orders, for the time to kill, or for the end of who gives the orders.
pub(crate) fn keep() -> ExitCode {
    let Ok(mut post) = Post::new() else { return ExitCode::FAILURE };
    // Before it is told of a command, there is none.
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
    /// Who gives them.
    parent: Option<Pid>,
    mark: Option<u64>,
    /// Whose children orphans of a command become that is being ended.
    adopter: Option<Pid>,
    /// Goes off at its time even if the machine was suspended meanwhile.
    alarm: OwnedFd,
    clocks: Clocks,
    deadline: Option<Deadline>,
    command: Option<KillSet>,
    /// When the last look around was.
    looked: Duration,
}

impl Post {
    fn new() -> io::Result<Self> {
        // Not through std's stdin, whose buffer poll knows nothing of.
        Self::at(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// That hears its orders here.
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
            let mut events = [PollFd::new(&self.orders, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
            // Without a command there is nothing to kill, however late it is: it may be told of one that is to begin.
            let has_command = self.command.is_some();
            let (awaited, limit) = if has_command { (2, Timespec::try_from(LOOK_AROUND).ok()) } else { (1, None) };
            if let Err(error) = poll(&mut events[..awaited], limit.as_ref())
                && error != Errno::INTR
            {
                return Ending::Kill;
            }
            // All orders first: whoever was kept from reading them finds old ones before the last.
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

    /// Reads one order; whoever writes it writes it whole.
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
                // Where nobody is shown, its number stands for the command.
                Order::KnowGroup(group) => {
                    let mut command = self.command.take().unwrap_or_else(|| self.watch(group));
                    command.know_group(group);
                    self.command = Some(command);
                }
                Order::Own(group) => self.command.iter_mut().for_each(|command| command.set_own(group)),
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

    /// While the command is being ended its orphans are our neighbours.
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
        // Nobody may be there any more to read it.
        let _ = self.orders.write_all(&[0]);
    }

    /// If it is time for that, whatever else happens.
    fn look_around(&mut self) {
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.left(self.clocks.read()));
        if let Some(command) = &mut self.command
            && now().saturating_sub(self.looked) >= LOOK_AROUND
        {
            command.look_around(left);
            self.looked = now();
        }
    }

    /// Waits until who gave the orders has ended, rather than closed its descriptors on the way there. In between the
    /// kernel continues the command's group, and sends it HUP, if that is stopped.
    fn see_parent_out(&self) {
        let until = now() + LEAVING;
        while getppid() == self.parent && now() < until {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Whether the time to kill has come, and no order says otherwise that came since it was looked for some.
    fn is_due(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut orders = [PollFd::new(&self.orders, PollFlags::IN)];
        self.set_alarm() && !poll(&mut orders, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Lays the alarm, which goes by another clock than the deadline, over that again. Whether the time has come.
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

/// Kills until nothing is left; only then the store may hear that this client is gone.
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

    /// It was kept from running between its look for orders and its look at the clock.
    #[test]
    fn a_longer_life_that_was_ordered_since_the_last_look_counts() {
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
