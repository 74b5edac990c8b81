//! What has to die with the lock: the command, its process group, and what descends from them.
//!
//! A group alone is not enough. A shell that controls jobs gives each job a group of its own, and `timeout` makes
//! itself the leader of one; they are found as descendants, while their parents live. Looks now and then, and one
//! before the first signal that ends a parent, find them in time. From that signal on an orphan is a child of `run`, and
//! is found there if it is in a session of the command. A process that has made a session of its own and lost its parent
//! while the command lived is a daemon, and is left alone.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, kill_process_group, pidfd_send_signal, test_kill_process_group};

use super::budget::Budget;
use super::environment;
use super::guard::now;
use super::orphans::Adopter;
use super::processes::{self, Process, group_of, own_group};
use super::seen::{Seen, has_ended, open, room};

/// How often those that were just found are stopped, and others looked for, before all are killed. Whoever is started
/// faster than that is met by the next kill, if it can be.
const ROUNDS: usize = 4;
/// Of a processor's time looks at all processes take one part in so many, where others come in between.
const SHARE: u32 = 500;
/// The same where there are no others.
const ONLY_SHARE: u32 = 50;
/// How long the number of a group is taken for the same group, though nobody is known to be in it still.
const TRUSTED: Duration = Duration::from_secs(10);

/// The processes of a command, in so far as they were seen.
#[derive(Debug)]
pub(super) struct Doomed {
    leader: Pid,
    /// The group that it was started in, if it is not ours.
    own: Option<Pid>,
    /// The groups whose members all belong to it: the command's, and those that its descendants lead.
    groups: HashSet<Pid>,
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
    /// Of looks at all processes that come now and then.
    budget: Budget,
    lists_children: bool,
}

impl Doomed {
    /// Of a command that is not reaped yet, and the only one in its process group.
    pub(super) fn of(leader: Pid) -> Self {
        let ours = [own_group(), getppid().and_then(group_of)];
        // One that has joined our own group is ended alone.
        let own = group_of(leader).filter(|group| !ours.contains(&Some(*group)));
        let groups = own.into_iter().collect();
        let (seen, sessions) = (HashMap::new(), HashSet::new());
        let (is_ending, adopter, mark, looked) = (false, None, None, now());
        let lists_children = processes::lists_children();
        let budget = Budget::new(if lists_children { SHARE } else { ONLY_SHARE });
        let mut doomed =
            Self { leader, own, groups, seen, sessions, is_ending, adopter, mark, looked, budget, lists_children };
        doomed.know(leader);
        doomed
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
        let has_heard = false;
        self.seen.extend(open(pid).map(|process| (pid, Seen { process, session, started, has_heard })));
    }

    /// All members of this group belong to the command too.
    pub(super) fn know_group(&mut self, group: Pid) {
        self.groups.insert(group);
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
        (searched.is_some() && !self.seen.is_empty()) || self.groups.iter().any(|group| processes::group_lives(*group))
    }

    /// Forgets groups whose numbers may be somebody else's by now. A number is free as soon as its group has no member
    /// left; in the short time between two looks nobody else gets it, but who looks may have been stopped for long. To
    /// be called before the command is reaped: until then its number is its own.
    pub(super) fn forget_strangers(&mut self) {
        if now().saturating_sub(self.looked) >= TRUSTED && processes::can_be_seen() {
            let ours: HashSet<_> = self.seen.iter().filter_map(|(pid, seen)| seen.group(*pid)).collect();
            self.groups.retain(|group| ours.contains(group));
        }
    }

    /// The groups whose members all belong to it.
    pub(super) fn groups(&self) -> impl Iterator<Item = Pid> {
        self.groups.iter().copied()
    }

    /// Looks for those who came to belong to it since. Of all processes, to look at which costs by the size of the machine,
    /// now and then: a member of a group that has lost its parent before anybody saw it is found there. In between, of those
    /// who are known and their descendants, which can be done all the time.
    /// All is done within `left`, the time up to the next deadline.
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
        self.looked = began;
        let is_known = |group: Option<Pid>| group.is_some_and(|group| self.groups.contains(&group));
        let is_new = |process: &Process| !is_known(process.group) && !self.seen.contains_key(&process.pid);
        let grew = found.iter().any(is_new);
        // The number of a group is nobody else's while it has a member, but may be as soon as it has none.
        self.groups.retain(|group| test_kill_process_group(*group) != Err(Errno::SRCH));
        self.groups.extend(found.iter().filter(|it| it.group == Some(it.pid)).map(|it| it.pid));
        let mut before = mem::take(&mut self.seen);
        before.retain(|pid, seen| seen.is_alive(*pid));
        let mut room = room().saturating_sub(before.len());
        let seen = found.iter().filter_map(|&Process { pid, session, started, .. }| {
            let (process, has_heard) = match before.remove(&pid) {
                Some(seen) => (seen.process, seen.has_heard),
                None if room == 0 => (None, false),
                None => {
                    room -= 1;
                    (open(pid)?, false)
                }
            };
            Some((pid, Seen { process, session, started, has_heard }))
        });
        self.seen = seen.collect();
        for (pid, seen) in before {
            match Process::of(pid.as_raw_nonzero().get()) {
                Some(process) => self.leave_alone(&process, found),
                // Whom `/proc` does not show has not left.
                None => drop(self.seen.insert(pid, seen)),
            }
        }
        if !self.is_ending && self.seen.contains_key(&self.leader) {
            self.sessions.clear();
        }
        self.sessions.extend(found.iter().map(|process| process.session));
        grew
    }

    /// This one was seen, and is not among those who were found now: it has become a daemon, and so has its group unless
    /// one of those is in it.
    fn leave_alone(&mut self, daemon: &Process, found: &[Process]) {
        let is_theirs = found.iter().any(|process| process.group == daemon.group);
        if !self.is_ending && !daemon.has_ended && daemon.group != self.own && !is_theirs {
            self.groups.retain(|group| Some(*group) != daemon.group);
        }
    }

    /// Whether it belongs to the command, whichever process its parent is.
    fn has(&self, process: &Process) -> bool {
        let is_in_a_group = process.group.is_some_and(|group| self.groups.contains(&group));
        let may_have_left = || process.group != self.own && self.is_elsewhere(process);
        (is_in_a_group && !may_have_left()) || self.is_seen_alive(process)
    }

    /// Whether it is in another session than the command, which goes on: there it belongs to that only as long as its
    /// parent does.
    fn is_elsewhere(&self, process: &Process) -> bool {
        let leader = || self.seen.get(&self.leader).filter(|leader| leader.is_alive(self.leader));
        !self.is_ending && leader().is_some_and(|leader| leader.session != process.session)
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

    /// Kills all that is left, and what is found on the way. Whether anything lived.
    pub(super) fn kill(&mut self) -> bool {
        self.is_ending = true;
        if !self.seen.get(&self.leader).is_some_and(|it| it.is_alive(self.leader)) {
            // Its group may have ended too, and the number be somebody else's. To look takes a while on a busy machine,
            // and those who are known for sure are not to go on until then.
            self.stop_those_who_are_known();
            self.search();
        }
        // Whoever is stopped starts nobody who leaves the group unseen, and leaves no children without a parent.
        self.signal(Signal::STOP);
        let mut grew = self.search();
        let alive = self.lives(grew);
        for _ in 1..ROUNDS {
            if grew != Some(true) {
                break;
            }
            self.signal(Signal::STOP);
            grew = self.search();
        }
        self.signal(Signal::KILL);
        alive
    }

    fn stop_those_who_are_known(&self) {
        for (pid, seen) in &self.seen {
            let is_ours = Process::of(pid.as_raw_nonzero().get()).is_some_and(|it| self.has(&it));
            if let (true, Some(process)) = (is_ours, &seen.process) {
                let _ = pidfd_send_signal(process, Signal::STOP);
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.follow();
        // The kernel signals a group in one step, which no member escapes by forking.
        for group in self.groups_in_order() {
            let _ = kill_process_group(group, signal);
        }
        for (pid, seen) in &self.seen {
            seen.signal(*pid, signal);
        }
    }

    /// The command may have made itself the leader of a group. Asked for also where nobody can be seen.
    fn follow(&mut self) {
        if self.seen.get(&self.leader).is_some_and(|it| it.is_alive(self.leader))
            && group_of(self.leader) == Some(self.leader)
        {
            self.groups.insert(self.leader);
        }
    }

    /// The command's own first, and the older ones before the younger: a shell that saw the end of its job before the
    /// signal reached itself would take its next step.
    fn groups_in_order(&self) -> Vec<Pid> {
        let own = group_of(self.leader);
        let mut groups: Vec<Pid> = self.groups.iter().copied().collect();
        groups.sort_by_key(|group| (Some(*group) != own, group.as_raw_nonzero()));
        groups
    }

    /// Sends a signal, once, to each of those who were there at the last look.
    pub(super) fn signal_once(&mut self, signal: Signal) {
        self.follow();
        for group in self.groups_in_order() {
            let _ = kill_process_group(group, signal);
        }
        for (pid, seen) in &self.seen {
            let group = Process::of(pid.as_raw_nonzero().get()).and_then(|process| process.group);
            if group.is_some_and(|group| !self.groups.contains(&group)) {
                seen.signal(*pid, signal);
            }
        }
        if signal == Signal::TERM {
            self.seen.values_mut().for_each(|seen| seen.has_heard = true);
        }
    }

    /// Sends TERM to each of those who were there at the last look and were not when it was sent before.
    pub(super) fn terminate_the_new(&mut self) {
        for (pid, seen) in self.seen.iter_mut().filter(|(_, seen)| !seen.has_heard) {
            seen.signal(*pid, Signal::TERM);
            seen.signal(*pid, Signal::CONT);
            seen.has_heard = true;
        }
    }

    /// Those who were there at the last look.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.seen.keys().copied()
    }

    /// Those of them who live.
    pub(super) fn living(&self) -> impl Iterator<Item = Pid> {
        self.seen.iter().filter(|(pid, seen)| seen.is_alive(**pid)).map(|(pid, _)| *pid)
    }

    /// Waits a moment for the end of what was seen.
    pub(super) fn pause(&self, limit: Duration) {
        match self.seen.values().find_map(|seen| seen.process.as_ref()) {
            Some(process) => drop(has_ended(process, limit)),
            None => thread::sleep(limit),
        }
    }
}

#[cfg(test)]
mod tests;
