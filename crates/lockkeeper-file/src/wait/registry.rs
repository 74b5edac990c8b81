//! The registered waiters: the claim or the name of each, its watches, and the end of its wait.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;

use tokio::sync::oneshot;

use crate::layout::times::Micros;
use crate::notify::NotifyFile;
use crate::store::{ClaimId, ClaimKey, Revision, SessionId, Wake};
use crate::watch::{News, Subject, Ticket, Watches};
use crate::{LockName, Result};

/// The subject of a wait.
#[derive(Clone, Debug)]
pub(crate) enum Watching {
    Claim(ClaimKey),
    Name(LockName, Revision),
}

/// All waiters, and the subjects of their waits.
pub(super) struct Registry {
    watches: Watches,
    waiting: HashMap<Ticket, Waiter>,
    /// The waiters that poll: their notification file or a client before them cannot be watched,
    /// since the user has no watches left, or the client is just ending.
    polling: HashSet<Ticket>,
    /// The waiters that look at a certain time.
    due: BTreeSet<(Micros, Ticket)>,
    /// The awaited claims, by their session, since one query returns all grants of a session.
    sessions: HashMap<SessionId, SessionWaiters>,
    names: HashMap<LockName, HashSet<Ticket>>,
}

/// The reply of a waiter.
pub(super) type Reply = oneshot::Sender<Result<Wake>>;

struct Waiter {
    what: Watching,
    reply: Reply,
    subjects: HashSet<Subject>,
    due: Option<Micros>,
}

/// The awaited claims of a session.
#[derive(Debug, Default)]
pub(super) struct SessionWaiters {
    /// The count at the last look.
    pub(super) wake_count: Option<i64>,
    claims: HashMap<ClaimId, HashSet<Ticket>>,
}

impl SessionWaiters {
    /// The awaited claims.
    pub(super) fn ids(&self) -> impl Iterator<Item = &ClaimId> {
        self.claims.keys()
    }
}

impl Registry {
    pub(super) fn new(watches: Watches) -> Self {
        Self {
            watches,
            waiting: HashMap::new(),
            polling: HashSet::new(),
            due: BTreeSet::new(),
            sessions: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// The number of waiters, and of watched files.
    #[cfg(test)]
    pub(super) fn left(&self) -> (usize, usize) {
        (self.waiting.len(), self.watches.len())
    }

    /// Readable when there are events to read.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watches.descriptor()
    }

    /// Whether a waiter has to look again without any news.
    pub(super) fn any_polling(&self) -> bool {
        !self.polling.is_empty()
    }

    /// When the next waiter has to look without an event, if any has to.
    pub(super) fn next_due(&self) -> Option<Micros> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The events since the last call.
    pub(super) fn news(&self) -> News {
        self.watches.news()
    }

    pub(super) fn insert(&mut self, ticket: Ticket, what: Watching, reply: Reply) {
        self.waiting.insert(ticket, Waiter { what, reply, subjects: HashSet::new(), due: None });
    }

    pub(super) fn knows(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    pub(super) fn add_session(&mut self, session: &SessionId, wake_count: Option<i64>) {
        self.sessions
            .insert(session.clone(), SessionWaiters { wake_count, claims: HashMap::new() });
    }

    pub(super) fn add_claim(&mut self, ticket: Ticket, key: &ClaimKey) {
        if let Some(waiters) = self.sessions.get_mut(&key.session) {
            waiters.claims.entry(key.id).or_default().insert(ticket);
        }
    }

    pub(super) fn add_name(&mut self, ticket: Ticket, name: &LockName) {
        self.names.entry(name.clone()).or_default().insert(ticket);
    }

    /// The subject of a wait.
    pub(super) fn what(&self, ticket: Ticket) -> Option<&Watching> {
        self.waiting.get(&ticket).map(|waiter| &waiter.what)
    }

    pub(super) fn set_due(&mut self, ticket: Ticket, at: Option<Micros>) {
        let Some(waiter) = self.waiting.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut waiter.due, at);
        before.map(|before| self.due.remove(&(before, ticket)));
        self.due.extend(at.map(|at| (at, ticket)));
    }

    pub(super) fn watch(&mut self, ticket: Ticket, subject: Subject) {
        match (self.watches.add(ticket, &subject), self.waiting.get_mut(&ticket)) {
            (Ok(()), Some(waiter)) => drop(waiter.subjects.insert(subject)),
            (Err(_), Some(_)) => drop(self.polling.insert(ticket)),
            (_, None) => {}
        }
    }

    /// Ends the watch of a subject for all its waiters, and returns the waiters.
    pub(super) fn unwatch(&mut self, subject: &Subject) -> Vec<Ticket> {
        let tickets = self.watches.tickets(subject);
        for ticket in &tickets {
            self.watches.remove(*ticket, subject);
            self.waiting.get_mut(ticket).map(|waiter| waiter.subjects.remove(subject));
        }
        tickets
    }

    /// Makes these waiters poll.
    pub(super) fn poll(&mut self, tickets: &[Ticket]) {
        self.polling.extend(tickets);
    }

    pub(super) fn polling(&self) -> Vec<Ticket> {
        self.polling.iter().copied().collect()
    }

    /// A waiter whose time has come, if there is one. The waiter keeps no time to look.
    pub(super) fn take_due(&mut self, now: Micros) -> Option<Ticket> {
        let (_, ticket) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.set_due(ticket, None);
        Some(ticket)
    }

    /// Forgets a waiter, and returns its reply.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Reply> {
        self.set_due(ticket, None);
        let waiter = self.waiting.remove(&ticket)?;
        self.polling.remove(&ticket);
        match &waiter.what {
            Watching::Claim(key) => self.leave_session(ticket, key),
            Watching::Name(name, _) => self.leave_name(ticket, name),
        }
        for subject in &waiter.subjects {
            self.watches.remove(ticket, subject);
        }
        Some(waiter.reply)
    }

    fn leave_session(&mut self, ticket: Ticket, key: &ClaimKey) {
        let Some(waiters) = self.sessions.get_mut(&key.session) else { return };
        if let Some(tickets) = waiters.claims.get_mut(&key.id) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                waiters.claims.remove(&key.id);
            }
        }
        if waiters.claims.is_empty() {
            self.sessions.remove(&key.session);
        }
    }

    fn leave_name(&mut self, ticket: Ticket, name: &LockName) {
        let Some(tickets) = self.names.get_mut(name) else { return };
        tickets.remove(&ticket);
        if tickets.is_empty() {
            self.names.remove(name);
        }
    }

    /// The waiters that watch a subject.
    pub(super) fn on_subject(&self, subject: &Subject) -> Vec<Ticket> {
        self.watches.tickets(subject)
    }

    /// The sessions whose waiters listen to this file.
    pub(super) fn sessions_on(&self, file: NotifyFile) -> Vec<SessionId> {
        self.sessions
            .keys()
            .filter(|session| NotifyFile::of_session(session) == file)
            .cloned()
            .collect()
    }

    /// The names whose observers listen to this file.
    pub(super) fn names_on(&self, file: NotifyFile) -> Vec<LockName> {
        self.names.keys().filter(|name| NotifyFile::of_name(name) == file).cloned().collect()
    }

    pub(super) fn session_mut(&mut self, session: &SessionId) -> Option<&mut SessionWaiters> {
        self.sessions.get_mut(session)
    }

    /// The waiters of all claims of a session.
    pub(super) fn of_session(&self, session: &SessionId) -> Vec<Ticket> {
        let waiters = self.sessions.get(session);
        waiters.into_iter().flat_map(|waiters| waiters.claims.values().flatten()).copied().collect()
    }

    /// The waiters of a claim.
    pub(super) fn of_claim(&self, session: &SessionId, id: &ClaimId) -> Vec<Ticket> {
        let waiters = self.sessions.get(session).and_then(|waiters| waiters.claims.get(id));
        waiters.into_iter().flatten().copied().collect()
    }

    /// The observers of a line.
    pub(super) fn of_name(&self, name: &LockName) -> Vec<Ticket> {
        self.names.get(name).into_iter().flatten().copied().collect()
    }
}
