//! The processes of the machine, as `/proc` shows them.

use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, test_kill_process_group};

/// The fields of `stat` in proc(5): the state of a process, its number of threads, and its start.
const STATE: usize = 3;
const THREADS: usize = 20;
const STARTED: usize = 22;

/// USER_HZ, the same on all machines on which Rust has a Linux.
const TICK: Duration = Duration::from_millis(10);

/// One process, at the moment of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// `None` for PID 1, and for a process from outside of the namespace.
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    /// The process has ended and waits for its parent to reap it.
    pub(super) has_ended: bool,
    /// The start of the process, in ticks since the boot of the machine.
    pub(super) started: Option<u64>,
}

/// Returns whether there is a `/proc` of this PID namespace. The numbers of another namespace mean
/// other processes.
pub(super) fn can_be_seen() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.and_then(|own| own.to_str()?.parse().ok()) == Some(getpid().as_raw_nonzero().get())
}

/// Returns whether `/proc` shows only some processes (`hidepid`, `ProtectProc` of systemd). Then
/// `/proc` may hide a process of the command that another user owns, or whose program file is
/// unreadable.
pub(super) fn hides_some() -> bool {
    fs::read("/proc/1/stat").is_err()
}

/// Returns whether a group has a living member, and not only zombies that are not reaped yet. A
/// zombie whose parent is hidden shows that a member lives. Every other zombie explains why the
/// group exists. If `/proc` is known to hide some processes, a zombie is an explanation only if its
/// parent is in the group of `run`: that parent may be stopped for long. Other members may exist
/// then, or not.
pub(super) fn group_lives(group: Pid) -> bool {
    if test_kill_process_group(group) == Err(Errno::SRCH) {
        return false;
    }
    let (all, ours, hides) = (all().unwrap_or_default(), getppid(), hides_some());
    let is_shown = |pid: Option<Pid>| pid.is_none() || all.iter().any(|it| Some(it.pid) == pid);
    let explains = |zombie: &Process| zombie.parent == ours || (!hides && is_shown(zombie.parent));
    !all.iter().any(|it| it.group == Some(group) && it.has_ended && explains(it))
}

/// Returns whether a process was started with this variable. `/proc` does not show the environment
/// of another user's process.
pub(super) fn has_variable(pid: Pid, (name, value): &(&str, String)) -> bool {
    let environment =
        fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let variable = [name.as_bytes(), value.as_bytes()].join(&b'=');
    environment.split(|byte| *byte == 0).any(|it| it == variable)
}

/// The visible processes that were started with this variable and have not ended.
pub(super) fn with_variable(variable: &(&str, String)) -> Vec<Pid> {
    let all = all().unwrap_or_default().into_iter().filter(|process| !process.has_ended);
    all.map(|process| process.pid).filter(|pid| has_variable(*pid, variable)).collect()
}

/// All visible processes; `None` if no process is visible.
pub(super) fn all() -> Option<Vec<Process>> {
    if !can_be_seen() {
        return None;
    }
    let pids = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter_map(Process::of).collect();
    (!all.is_empty()).then_some(all)
}

/// The children of a process that have not ended.
pub(super) fn children(parent: Pid) -> Vec<Process> {
    let mut children = children_and_zombies(parent);
    children.retain(|process| !process.has_ended);
    children
}

/// The children of a process, with zombies that are not reaped yet.
pub(super) fn children_and_zombies(parent: Pid) -> Vec<Process> {
    let mut processes = match lists_children() {
        true => listed_children(parent),
        false => all().unwrap_or_default(),
    };
    processes.retain(|process| process.parent == Some(parent));
    processes
}

/// The children that the kernel lists for each thread of the process.
fn listed_children(parent: Pid) -> Vec<Process> {
    let tasks = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    let lists = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let list = fs::read_to_string(task.path().join("children")).ok()?;
        (!list.is_empty()).then_some(list)
    });
    let pids = lists.flat_map(|list| {
        list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
    });
    pids.filter_map(Process::of).collect()
}

/// Returns whether the kernel lists the children of a process. A kernel without
/// `CONFIG_PROC_CHILDREN` does not; there the children of one process cost as much as all
/// processes.
pub(super) fn lists_children() -> bool {
    fs::exists("/proc/thread-self/children").is_ok_and(|is_there| is_there)
}

/// Adds all descendants of the found processes. `children` gives the children of one process that
/// are not found yet.
pub(super) fn add_descendants(
    found: &mut Vec<Process>,
    mut children: impl FnMut(Pid) -> Vec<Process>,
) {
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let children = children(parent.pid);
        found.extend(children);
        next += 1;
    }
}

/// The group of a process, without `/proc`; `None` also for a group from outside of the PID
/// namespace.
pub(super) fn group_of(pid: Pid) -> Option<Pid> {
    let pid = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
    Pid::from_raw(nix::unistd::getpgid(Some(pid)).ok()?.as_raw())
}

/// Returns whether no process outside of this process group, but in its session, could continue the
/// group when it is stopped. The kernel does not stop such a group at Ctrl-Z.
pub(super) fn is_orphaned(group: Pid) -> bool {
    let Some(all) = all() else { return true };
    let find = |pid: Option<Pid>| all.iter().find(|process| Some(process.pid) == pid);
    !all.iter().filter(|process| process.group == Some(group) && !process.has_ended).any(|member| {
        find(member.parent)
            .is_some_and(|parent| parent.group != member.group && parent.session == member.session)
    })
}

/// Sends a signal to the members of our own group but us.
pub(super) fn signal_neighbours(own_group: Pid, signal: Signal) {
    for neighbour in all().unwrap_or_default() {
        if neighbour.group == Some(own_group) && neighbour.pid != getpid() {
            let _ = kill_process(neighbour.pid, signal);
        }
    }
}

impl Process {
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::read(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Returns whether the process was started after this time since the boot, or in the tick
    /// before.
    pub(super) fn is_younger_than(&self, time: Duration) -> bool {
        self.started.is_some_and(|started| u128::from(started) >= time.as_nanos() / TICK.as_nanos())
    }

    /// Reads `PID (NAME) STATE PARENT GROUP SESSION …`. The name may hold blanks and brackets.
    ///
    /// A process whose first thread has ended shows as a zombie, however many other threads run. A
    /// process that is being reaped at this moment shows -1 as its group: it is gone.
    fn read(pid: i32, stat: &str) -> Option<Self> {
        let fields = stat.rsplit_once(") ")?.1;
        let is_alone = fields
            .split(' ')
            .nth(THREADS - STATE)
            .is_none_or(|threads| threads == "0" || threads == "1");
        let started = fields.split(' ').nth(STARTED - STATE).and_then(|ticks| ticks.parse().ok());
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let has_ended = matches!(state, "Z" | "X" | "x") && is_alone;
        let mut number = || Some(Pid::from_raw(fields.next()?.parse::<u32>().ok()?.cast_signed()));
        let (parent, group, session) = (number()?, number()?, number()?);
        Some(Self { pid: Pid::from_raw(pid)?, parent, group, session, has_ended, started })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::this_process::own_group;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let read = |stat| Process::read(7, stat).unwrap();
        let process = read("7 (a) Z) (b) S 3 7 2 34816 7 …");
        assert_eq!((process.parent, process.group), (Pid::from_raw(3), Pid::from_raw(7)));
        assert_eq!(process.session, Pid::from_raw(2));
        assert!(!process.has_ended);
        assert!(read("7 (sh) Z 0 7 2").has_ended);
        assert_eq!(
            read("7 (sh) S 1 7 2 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0").started,
            Some(4711)
        );
        assert!(read("7 (sh) Z 1 7 2 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 …").has_ended);
        assert!(!read("7 (sh) Z 1 7 2 0 -1 4 0 0 0 0 0 0 0 0 20 0 2 0 …").has_ended);
        assert_eq!(read("7 (sh) Z 0 7 2").parent, None);
        assert_eq!(Process::read(7, "7 (sh) X 0 -1 -1 0 -1 4"), None);
        assert_eq!(Process::read(7, "7 (sh"), None);
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let all = all().unwrap();
        let own = all.iter().find(|process| process.pid == getpid()).unwrap();
        let session = Pid::from_raw(nix::unistd::getsid(None).unwrap().as_raw());
        assert_eq!((own.parent, own.group, own.session), (getppid(), own_group(), session));
    }
    #[test]
    fn in_a_namespace_it_has_no_number_of_what_is_outside() {
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.arg(std::env::current_exe().unwrap()).arg("--exact");
        let ended =
            unshare.arg("child::processes::tests::this_process_is_seen_as_it_is").output().unwrap();
        let printed = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && printed.contains("1 passed"), "{ended:?}");
    }
}
