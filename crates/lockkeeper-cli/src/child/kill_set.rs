//! The processes that have to die with the lock: the command, its process group, and their
//! descendants.
//!
//! A group alone is not enough. A shell that controls jobs gives each job a group of its own, and
//! `timeout` makes itself the leader of a group. `run` finds such groups as descendants, while
//! their parents live. `run` looks now and then, and once before the first signal that ends a
//! parent. From that signal on, an orphan is a child of `run`, and is found there if it is in a
//! session of the command. A process with a session of its own that lost its parent while the
//! command lived is a daemon. `run` leaves daemons alone.

mod end;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getppid, test_kill_process_group};

use super::budget::Budget;
use super::environment;
use super::guard::now;
use super::orphans::Adopter;
use super::processes::{self, Process, group_of};
use super::seen::{Seen, open, room};
use crate::this_process::own_group;

/// Full looks at all processes take one part in this many of a processor's time, if cheaper looks
/// come in between.
const SHARE: u32 = 500;
/// The same part if there are no cheaper looks.
const ONLY_SHARE: u32 = 50;
/// How long a group number counts as the same group without a known member.
const TRUSTED: Duration = Duration::from_secs(10);

/// The known processes of a command.
#[derive(Debug)]
pub(super) struct KillSet {
    leader: Pid,
    /// The group that the command was started in, if it is not the group of `run`.
    own: Option<Pid>,
    /// The groups that belong to the command as a whole: the command's group, and the groups that
    /// its descendants lead. Each has its session, if known.
    groups: HashMap<Pid, Option<Pid>>,
    seen: HashMap<Pid, Seen>,
    /// The sessions in which the members were seen. All sessions, once the command is being ended.
    sessions: HashSet<Option<Pid>>,
    /// The command is being ended: a process that loses its parent now does not do so of its own
    /// will.
    is_ending: bool,
    adopter: Option<Adopter>,
    /// The variable in the environment of the command's processes.
    mark: Option<(&'static str, String)>,
    /// When the last look began.
    looked: Duration,
    /// Up to this time the groups were known to be the command's own.
    trusted: Duration,
    /// Limits the full looks at all processes.
    budget: Budget,
    lists_children: bool,
}

impl KillSet {
    /// The set of a command that is not reaped yet and is alone in its process group.
    pub(super) fn of(leader: Pid) -> Self {
        let ours = [own_group(), getppid().and_then(group_of)];
        // One that has joined our own group is ended alone.
        let own = group_of(leader).filter(|group| !ours.contains(&Some(*group)));
        let groups = own.into_iter().map(|own| (own, None)).collect();
        let (seen, sessions) = (HashMap::new(), HashSet::new());
        let (is_ending, adopter, mark, looked, trusted) = (false, None, None, now(), now());
        let lists_children = processes::lists_children();
        let budget = Budget::new(if lists_children { SHARE } else { ONLY_SHARE });
        let mut kill_set = Self {
            leader,
            own,
            groups,
            seen,
            sessions,
            is_ending,
            adopter,
            mark,
            looked,
            trusted,
            budget,
            lists_children,
        };
        kill_set.know(leader);
        kill_set
    }

    /// The processes of the command have this number in their environment, unless they were started
    /// without an environment.
    pub(super) fn marked(self, mark: u64) -> Self {
        Self { mark: Some(environment::mark(mark)), ..self }
    }

    /// Orphans of an ending command become children of this process, which starts no unknown
    /// process.
    pub(super) fn adopted_by(self, adopter: Pid) -> Self {
        let adopter = Some(Adopter::new(adopter, self.leader));
        Self { adopter, ..self }
    }

    /// The children of this process that have ended, and that only `run` has to reap.
    pub(super) fn ended_orphans(&self) -> Vec<Pid> {
        // Without lists that would be another look at all processes.
        let adopter = self.adopter.as_ref().filter(|_| self.lists_children);
        let ended = adopter.map(Adopter::ended).unwrap_or_default();
        ended.into_iter().filter(|pid| *pid != self.leader).collect()
    }

    /// This child of the adopter does not belong to the command.
    pub(super) fn except(&mut self, pid: Pid) {
        if let Some(adopter) = &mut self.adopter {
            adopter.except(pid);
        }
    }

    /// This one belongs to the command too.
    pub(super) fn know(&mut self, pid: Pid) {
        let process = Process::of(pid.as_raw_nonzero().get());
        let (session, started) =
            (process.and_then(|it| it.session), process.and_then(|it| it.started));
        self.sessions.insert(session);
        let was_signalled = false;
        self.seen.extend(
            open(pid).map(|process| (pid, Seen { process, session, started, was_signalled })),
        );
    }

    /// All members of this group belong to the command too.
    pub(super) fn know_group(&mut self, group: Pid) {
        self.groups.entry(group).or_default();
    }

    /// The command was started in this group, and another guard watched the group then.
    pub(super) fn set_own(&mut self, group: Pid) {
        self.own = Some(group);
    }

    pub(super) fn own(&self) -> Option<Pid> {
        self.own
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// The command is not being ended after all: a process that loses its parent now does so of its
    /// own will. Processes that have done so by now are left alone.
    pub(super) fn go_on(&mut self) {
        self.is_ending = false;
        if let Some(adopter) = &mut self.adopter {
            adopter
                .adopted()
                .iter()
                .filter(|it| !self.seen.contains_key(&it.pid))
                .for_each(|it| adopter.except(it.pid));
        }
    }

    /// Looks for the processes of a command that is being ended. A process that is seen now belongs
    /// to the command for ever. Returns whether any process lives.
    pub(super) fn look(&mut self) -> bool {
        self.is_ending = true;
        let searched = self.search();
        self.lives(searched)
    }

    /// A group with a member lives, even if `/proc` shows no process.
    fn lives(&self, searched: Option<bool>) -> bool {
        (searched.is_some() && !self.seen.is_empty()) || self.groups().any(processes::group_lives)
    }

    /// Forgets groups whose numbers may belong to other groups by now. A number is free as soon as
    /// its group has no member. In the short time between two looks no new group gets the number,
    /// but this process may have been stopped for long. Must run before the command is reaped:
    /// until then the command keeps its number.
    pub(super) fn forget_strangers(&mut self) {
        if now().saturating_sub(self.trusted) >= TRUSTED && processes::can_be_seen() {
            let ours: HashSet<_> =
                self.seen.iter().filter_map(|(pid, seen)| seen.group(*pid)).collect();
            self.groups.retain(|group, _| ours.contains(group));
            self.trusted = now();
        }
    }

    /// The groups that belong to the command as a whole.
    pub(super) fn groups(&self) -> impl Iterator<Item = Pid> {
        self.groups.keys().copied()
    }

    /// Looks for new processes of the command. A full look at all processes finds a member of a
    /// group that lost its parent before any look; its cost grows with the machine, so it comes now
    /// and then. The looks in between go from the known processes to their descendants. `left` is
    /// the time up to the next deadline.
    pub(super) fn look_around(&mut self, left: Duration) {
        if !processes::can_be_seen() {
            return;
        }
        let began = now();
        self.forget_strangers();
        let found = if self.budget.allows(left) {
            let spent = self.budget.begin();
            let found = self.among_all(|it| self.has(it) || (self.is_ending && self.is_orphan(it)));
            self.budget.pay(spent);
            found
        } else {
            self.lists_children.then(|| self.among_known())
        };
        if let Some(found) = found {
            self.remember(&found, began);
        }
    }

    /// The known processes that still live, and their descendants.
    fn among_known(&self) -> Vec<Process> {
        let known = self.seen.keys().filter_map(|pid| Process::of(pid.as_raw_nonzero().get()));
        let mut found: Vec<_> =
            known.filter(|process| !process.has_ended && self.has(process)).collect();
        if self.is_ending {
            let adopted = self.adopter.as_ref().map(Adopter::adopted).unwrap_or_default();
            found.extend(
                adopted.into_iter().filter(|orphan| !self.has(orphan) && self.is_orphan(orphan)),
            );
        }
        let mut pids: HashSet<_> = found.iter().map(|process| process.pid).collect();
        processes::add_descendants(&mut found, |parent| {
            processes::children(parent).into_iter().filter(|child| pids.insert(child.pid)).collect()
        });
        found
    }

    /// Returns whether a new process was found outside of the known groups; `None` if processes
    /// cannot be seen.
    fn search(&mut self) -> Option<bool> {
        let began = now();
        self.forget_strangers();
        let found =
            self.among_all(|it| self.has(it) || self.is_orphan(it) || self.is_marked(it))?;
        Some(self.remember(&found, began))
    }

    /// The processes that belong to the command, and their descendants; `None` if processes cannot
    /// be seen.
    fn among_all(&self, belongs: impl Fn(&Process) -> bool) -> Option<Vec<Process>> {
        let all = processes::all()?.into_iter().filter(|process| !process.has_ended);
        let (mut found, others): (Vec<_>, Vec<_>) = all.partition(belongs);
        let mut children = HashMap::<_, Vec<_>>::new();
        for process in others {
            children.entry(process.parent).or_default().push(process);
        }
        processes::add_descendants(&mut found, |parent| {
            children.remove(&Some(parent)).unwrap_or_default()
        });
        Some(found)
    }

    /// Takes the found processes for all processes that exist since a look began. Returns whether
    /// one is new, and outside of the known groups.
    fn remember(&mut self, found: &[Process], began: Duration) -> bool {
        (self.looked, self.trusted) = (began, began);
        let is_known =
            |group: Option<Pid>| group.is_some_and(|group| self.groups.contains_key(&group));
        let is_new =
            |process: &Process| !is_known(process.group) && !self.seen.contains_key(&process.pid);
        let grew = found.iter().any(is_new);
        // No other group has this number while the group has a member, but may have it as soon as
        // the group is empty.
        self.groups.retain(|group, _| test_kill_process_group(*group) != Err(Errno::SRCH));
        self.groups.extend(
            found.iter().filter(|it| it.group == Some(it.pid)).map(|it| (it.pid, it.session)),
        );
        for member in found {
            if let Some(session) = member.group.and_then(|group| self.groups.get_mut(&group)) {
                *session = member.session;
            }
        }
        self.own = self.own.filter(|own| self.groups.contains_key(own));
        let mut before = mem::take(&mut self.seen);
        before.retain(|pid, seen| seen.is_alive(*pid));
        let mut room = room().saturating_sub(before.len());
        let seen = found.iter().filter_map(|&Process { pid, session, started, .. }| {
            let (process, was_signalled) = match before.remove(&pid) {
                Some(seen) => (seen.process, seen.was_signalled),
                None if room == 0 => (None, false),
                None => {
                    room -= 1;
                    (open(pid)?, false)
                }
            };
            Some((pid, Seen { process, session, started, was_signalled }))
        });
        self.seen = seen.collect();
        // A process that `/proc` hides has not ended.
        self.seen.extend(
            before.into_iter().filter(|(pid, _)| Process::of(pid.as_raw_nonzero().get()).is_none()),
        );
        self.leave_daemons_alone();
        if !self.is_ending && self.seen.contains_key(&self.leader) {
            self.sessions.clear();
        }
        self.sessions.extend(found.iter().map(|process| process.session));
        grew
    }

    /// If no process of the command is in a group of another session, the processes of that group
    /// have become daemons.
    fn leave_daemons_alone(&mut self) {
        let Some(session) = self.session() else { return };
        let inhabited: HashSet<_> =
            self.seen.iter().filter_map(|(pid, seen)| seen.group(*pid)).collect();
        let is_here = |theirs: Option<Pid>| theirs.is_none() || theirs == session;
        let own = self.own;
        self.groups.retain(|group, theirs| {
            Some(*group) == own || is_here(*theirs) || inhabited.contains(group)
        });
    }

    /// The session of the command while the command goes on. A command that `/proc` hides may be in
    /// any session.
    fn session(&self) -> Option<Option<Pid>> {
        let leader = self
            .seen
            .get(&self.leader)
            .filter(|leader| !self.is_ending && leader.is_alive(self.leader));
        leader.filter(|leader| leader.started.is_some()).map(|leader| leader.session)
    }

    /// Returns whether a process belongs to the command, whichever parent it has.
    fn has(&self, process: &Process) -> bool {
        let is_in_a_group = process.group.is_some_and(|group| self.groups.contains_key(&group));
        let may_have_left = || process.group != self.own && self.is_elsewhere(process);
        (is_in_a_group && !may_have_left()) || self.is_seen_alive(process)
    }

    /// Returns whether a process is in another session than a command that goes on. There, the
    /// process belongs to the command only as long as its parent does.
    fn is_elsewhere(&self, process: &Process) -> bool {
        self.session().is_some_and(|session| session != process.session)
    }

    /// Returns whether a process has lost its parent since the command is being ended, and is no
    /// daemon.
    fn is_orphan(&self, process: &Process) -> bool {
        self.sessions.contains(&process.session)
            && self.adopter.as_ref().is_some_and(|it| it.has(process))
    }

    /// Returns whether the command has started a process that no look saw while its parent lived.
    /// In a session of its own the process may be a daemon, unless no look happened since its
    /// start: then the two cases cannot be distinguished.
    fn is_marked(&self, process: &Process) -> bool {
        let has =
            |pid: Pid| self.mark.as_ref().is_some_and(|mark| processes::has_variable(pid, mark));
        if self.sessions.contains(&process.session) {
            return has(process.pid);
        }
        // A process with a daemon as its parent or session leader belongs to the daemon.
        let is_started_by_a_daemon =
            || process.parent.is_some_and(has) || self.is_led_by_another(process);
        process.is_younger_than(self.looked) && has(process.pid) && !is_started_by_a_daemon()
    }

    /// Returns whether another process, which the last look saw, leads the session of this process.
    fn is_led_by_another(&self, process: &Process) -> bool {
        let leader = process.session.filter(|session| *session != process.pid);
        let leader = leader.and_then(|leader| Process::of(leader.as_raw_nonzero().get()));
        leader.is_some_and(|leader| !leader.has_ended && !leader.is_younger_than(self.looked))
    }

    /// A process that has made a session of its own and lost its parent is a daemon, unless the
    /// command is being ended. The command itself is never a daemon.
    fn is_seen_alive(&self, process: &Process) -> bool {
        let seen = self.seen.get(&process.pid).filter(|seen| seen.is_alive(process.pid));
        let is_daemon = |seen: &Seen| {
            self.is_elsewhere(process) || (!self.is_ending && seen.session != process.session)
        };
        seen.is_some_and(|seen| process.pid == self.leader || !is_daemon(seen))
    }
}

#[cfg(test)]
mod tests;
