//! The orders to a guard process, and the clock of their times.

use std::time::Duration;

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// The length of every order.
pub(super) const LENGTH: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The processes of the command have this number in their environment.
    Mark(u64),
    /// Orphans of the command that is being ended become children of `run`, which starts no other
    /// processes.
    Adopted,
    /// This process is the command, or is about to become the command. The guard answers.
    Watch(Pid),
    /// This process belongs to the command too: `run` or an earlier guard has seen it.
    Know(Pid),
    /// All members of this group belong to the command.
    KnowGroup(Pid),
    /// This is the group that the command was started in.
    Own(Pid),
    /// Kill the command at this time of [`now`]'s clock.
    KillAt(Duration),
    /// Look for the processes of the command now, and answer: some of them are about to lose their
    /// parents.
    Look,
    /// The command goes on after all: a process that leaves its parent now does so of its own will.
    GoOn,
    /// Leave the command alone, and end.
    Leave,
}

impl Order {
    pub(super) fn bytes(self) -> [u8; LENGTH] {
        let (kind, number) = match self {
            Self::Mark(mark) => (b'm', mark),
            Self::Adopted => (b'a', 0),
            Self::Watch(pid) => (b'w', number(pid)),
            Self::Know(pid) => (b'n', number(pid)),
            Self::KnowGroup(group) => (b'p', number(group)),
            Self::Own(group) => (b's', number(group)),
            Self::KillAt(time) => (b'k', u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Self::Look => (b'o', 0),
            Self::GoOn => (b'g', 0),
            Self::Leave => (b'l', 0),
        };
        let mut bytes = [kind; LENGTH];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: [u8; LENGTH]) -> Option<Self> {
        let [kind, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        match kind {
            b'm' => Some(Self::Mark(number)),
            b'a' => Some(Self::Adopted),
            b'w' => pid(number).map(Self::Watch),
            b'n' => pid(number).map(Self::Know),
            b'p' => pid(number).map(Self::KnowGroup),
            b's' => pid(number).map(Self::Own),
            b'k' => Some(Self::KillAt(Duration::from_nanos(number))),
            b'o' => Some(Self::Look),
            b'g' => Some(Self::GoOn),
            b'l' => Some(Self::Leave),
            _ => None,
        }
    }
}

fn number(pid: Pid) -> u64 {
    u64::from(pid.as_raw_nonzero().get().unsigned_abs())
}

fn pid(number: u64) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Runs on while the machine is suspended, and is the same in every process.
pub(in crate::child) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let pid = Pid::from_raw(4711).unwrap();
        let time = Order::KillAt(Duration::new(77, 123_456_789));
        for order in [
            Order::Mark(u64::MAX),
            Order::Adopted,
            Order::Watch(pid),
            Order::Know(pid),
            Order::KnowGroup(pid),
            Order::Own(pid),
            time,
            Order::Look,
            Order::GoOn,
            Order::Leave,
        ] {
            assert_eq!(Order::read(order.bytes()), Some(order));
        }
        assert_eq!(Order::read([b'w', 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Order::read([0; LENGTH]), None);
    }
}
