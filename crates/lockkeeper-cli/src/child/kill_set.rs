//! What has to die with the lock: the command, its process group, and what descends from them.
//!
//! A group alone is not enough. A shell that controls jobs gives each job a group of its own, and `timeout` makes
//! itself the leader of one; they are found as descendants, while their parents live. Looks now and then, and one
//! before the first signal that ends a parent, find them in time. From that signal on an orphan is a child of `run`, and
//! is found there if it is in a session of the command. A process that has made a session of its own and lost its parent
//! while the command lived is a daemon, and is left alone.

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

/// Of a processor's time looks at all processes take one part in so many, where others come in between.
const SHARE: u32 = 500;
/// The same where there are no others.
const ONLY_SHARE: u32 = 50;
/// How long the number of a group is taken for the same group, though nobody is known to be in it still.
const TRUSTED: Duration = Duration::from_secs(10);

/// The processes of a command, in so far as they were seen.
#[derive(Debug)]
pub(super) struct KillSet {
    leader: Pid,
    /// The group that it was started in, if it is not ours.
    own: Option<Pid>,
    /// The groups whose members all belong to it: the command's, and those that its descendants lead. And the session of
    /// each, if that is known.
    groups: HashMap<Pid, Option<Pid>>,
    seen: HashMap<Pid, Seen>,
    /// The sessions in which those were seen; all of them since the command is being ended.
    sessions: HashSet<Option<Pid>>,
    /// The command is being ended: who loses its parent now does not do that of its own will.
    is_ending: bool,
    adopter: Option<Adopter>,
    /// The variable that its processes were started with.
    mark: Option<(&'static str, String)>,
    /// When the last look began.
    looked: Duration,
    /// Up to when the groups were known to be its own.
    trusted: Duration,
    /// Of looks at all processes that come now and then.
    budget: Budget,
    lists_children: bool,
}

impl KillSet {
    /// Of a command that is not reaped yet, and the only one in its process group.
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

    /// Its processes have this number in their environment, unless they were started without.
    pub(super) fn marked(self, mark: u64) -> Self {
        Self { mark: Some(environment::mark(mark)), ..self }
    }

    /// Orphans of a command that is being ended become children of this process, which starts nobody unknown.
    pub(super) fn adopted_by(self, adopter: Pid) -> Self {
        let adopter = Some(Adopter::new(adopter, self.leader));
        Self { adopter, ..self }
    }

    /// The children of this process that have ended, and that nobody waits for but us.
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
        let (session, started) = (process.and_then(|it| it.session), process.and_then(|it| it.started));
        self.sessions.insert(session);
        let was_signalled = false;
        self.seen.extend(open(pid).map(|process| (pid, Seen { process, session, started, was_signalled })));
    }

    /// All members of this group belong to the command too.
    pub(super) fn know_group(&mut self, group: Pid) {
        self.groups.entry(group).or_default();
    }

    /// This is the group that the command was started in, where another one has watched it then.
    pub(super) fn set_own(&mut self, group: Pid) {
        self.own = Some(group);
    }

    pub(super) fn own(&self) -> Option<Pid> {
        self.own
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// The command is not being ended: who loses its parent now does that of its own will. Who has done so by now is left
    /// alone.
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

    /// Looks who belongs to it, as it is being ended. What is seen now belongs to it for ever. Whether anything lives.
    pub(super) fn look(&mut self) -> bool {
        self.is_ending = true;
        let searched = self.search();
        self.lives(searched)
    }

    /// Who is in one of the groups lives, though `/proc` shows nobody.
    fn lives(&self, searched: Option<bool>) -> bool {
        (searched.is_some() && !self.seen.is_empty()) || self.groups().any(processes::group_lives)
    }

    /// Forgets groups whose numbers may be somebody else's by now. A number is free as soon as its group has no member
    /// left; in the short time between two looks nobody else gets it, but who looks may have been stopped for long. To
    /// be called before the command is reaped: until then its number is its own.
    pub(super) fn forget_strangers(&mut self) {
        if now().saturating_sub(self.trusted) >= TRUSTED && processes::can_be_seen() {
            let ours: HashSet<_> = self.seen.iter().filter_map(|(pid, seen)| seen.group(*pid)).collect();
            self.groups.retain(|group, _| ours.contains(group));
            self.trusted = now();
        }
    }

    /// The groups whose members all belong to it.
    pub(super) fn groups(&self) -> impl Iterator<Item = Pid> {
        self.groups.keys().copied()
    }

    /// Looks for those who came to belong to it since. A look at all processes finds a member of a group that lost its
    /// parent before anybody saw it; such a look costs by the size of the machine, and comes now and then. The looks in
    /// between go from those who are known to their descendants. `left` is the time up to the next deadline.
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

    /// Those of them who are still there, and who descends from them.
    fn among_known(&self) -> Vec<Process> {
        let known = self.seen.keys().filter_map(|pid| Process::of(pid.as_raw_nonzero().get()));
        let mut found: Vec<_> = known.filter(|process| !process.has_ended && self.has(process)).collect();
        if self.is_ending {
            let adopted = self.adopter.as_ref().map(Adopter::adopted).unwrap_or_default();
            found.extend(adopted.into_iter().filter(|orphan| !self.has(orphan) && self.is_orphan(orphan)));
        }
        let mut pids: HashSet<_> = found.iter().map(|process| process.pid).collect();
        processes::add_descendants(&mut found, |parent| {
            processes::children(parent).into_iter().filter(|child| pids.insert(child.pid)).collect()
        });
        found
    }

    /// Whether somebody new was found outside of the groups that were known; `None` where one cannot look.
    fn search(&mut self) -> Option<bool> {
        let began = now();
        self.forget_strangers();
        let found = self.among_all(|it| self.has(it) || self.is_orphan(it) || self.is_marked(it))?;
        Some(self.remember(&found, began))
    }

    /// Those who belong to it, and who descends from them; `None` where one cannot look.
    fn among_all(&self, belongs: impl Fn(&Process) -> bool) -> Option<Vec<Process>> {
        let all = processes::all()?.into_iter().filter(|process| !process.has_ended);
        let (mut found, others): (Vec<_>, Vec<_>) = all.partition(belongs);
        let mut children = HashMap::<_, Vec<_>>::new();
        for process in others {
            children.entry(process.parent).or_default().push(process);
        }
        processes::add_descendants(&mut found, |parent| children.remove(&Some(parent)).unwrap_or_default());
        Some(found)
    }

    /// Takes them for all that there are since a look began. Whether one of them is new, and outside of the groups that
    /// were known.
    fn remember(&mut self, found: &[Process], began: Duration) -> bool {
        (self.looked, self.trusted) = (began, began);
        let is_known = |group: Option<Pid>| group.is_some_and(|group| self.groups.contains_key(&group));
        let is_new = |process: &Process| !is_known(process.group) && !self.seen.contains_key(&process.pid);
        let grew = found.iter().any(is_new);
        // The number of a group is nobody else's while it has a member, but may be as soon as it has none.
        self.groups.retain(|group, _| test_kill_process_group(*group) != Err(Errno::SRCH));
        self.groups.extend(found.iter().filter(|it| it.group == Some(it.pid)).map(|it| (it.pid, it.session)));
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
        // Whom `/proc` does not show has not left.
        self.seen.extend(before.into_iter().filter(|(pid, _)| Process::of(pid.as_raw_nonzero().get()).is_none()));
        self.leave_daemons_alone();
        if !self.is_ending && self.seen.contains_key(&self.leader) {
            self.sessions.clear();
        }
        self.sessions.extend(found.iter().map(|process| process.session));
        grew
    }

    /// Who is left in a group of another session than the command's has become a daemon, if nobody who belongs to the
    /// command is in it.
    fn leave_daemons_alone(&mut self) {
        let Some(session) = self.session() else { return };
        let inhabited: HashSet<_> = self.seen.iter().filter_map(|(pid, seen)| seen.group(*pid)).collect();
        let is_here = |theirs: Option<Pid>| theirs.is_none() || theirs == session;
        let own = self.own;
        self.groups.retain(|group, theirs| Some(*group) == own || is_here(*theirs) || inhabited.contains(group));
    }

    /// The session of the command while that goes on. One that `/proc` hides is in any.
    fn session(&self) -> Option<Option<Pid>> {
        let leader = self.seen.get(&self.leader).filter(|leader| !self.is_ending && leader.is_alive(self.leader));
        leader.filter(|leader| leader.started.is_some()).map(|leader| leader.session)
    }

    /// Whether it belongs to the command, whichever process its parent is.
    fn has(&self, process: &Process) -> bool {
        let is_in_a_group = process.group.is_some_and(|group| self.groups.contains_key(&group));
        let may_have_left = || process.group != self.own && self.is_elsewhere(process);
        (is_in_a_group && !may_have_left()) || self.is_seen_alive(process)
    }

    /// Whether it is in another session than the command, which goes on: there it belongs to that only as long as its
    /// parent does.
    fn is_elsewhere(&self, process: &Process) -> bool {
        self.session().is_some_and(|session| session != process.session)
    }

    /// Whether it has lost its parent since the command is being ended, and is no daemon.
    fn is_orphan(&self, process: &Process) -> bool {
        self.sessions.contains(&process.session) && self.adopter.as_ref().is_some_and(|it| it.has(process))
    }

    /// Whether the command has started it, though nobody has seen it while its parent lived. In a session of its own it
    /// may be a daemon, unless nobody has looked since its start: then nobody can tell.
    fn is_marked(&self, process: &Process) -> bool {
        let has = |pid: Pid| self.mark.as_ref().is_some_and(|mark| processes::has_variable(pid, mark));
        if self.sessions.contains(&process.session) {
            return has(process.pid);
        }
        // A process that a daemon has started is the daemon's: the daemon is its parent, or leads its session.
        let is_started_by_a_daemon = || process.parent.is_some_and(has) || self.is_led_by_another(process);
        process.is_younger_than(self.looked) && has(process.pid) && !is_started_by_a_daemon()
    }

    /// Whether its session is that of somebody else, who was there at the last look.
    fn is_led_by_another(&self, process: &Process) -> bool {
        let leader = process.session.filter(|session| *session != process.pid);
        let leader = leader.and_then(|leader| Process::of(leader.as_raw_nonzero().get()));
        leader.is_some_and(|leader| !leader.has_ended && !leader.is_younger_than(self.looked))
    }

    /// A process that has made a session of its own and lost its parent is a daemon, unless the command is being ended.
    /// The command itself is none, wherever it goes.
    fn is_seen_alive(&self, process: &Process) -> bool {
        let seen = self.seen.get(&process.pid).filter(|seen| seen.is_alive(process.pid));
        let is_daemon =
            |seen: &Seen| self.is_elsewhere(process) || (!self.is_ending && seen.session != process.session);
        seen.is_some_and(|seen| process.pid == self.leader || !is_daemon(seen))
    }
}

#[cfg(test)]
mod tests;
