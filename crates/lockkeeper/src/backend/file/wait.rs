//! Waiting: bells that others ring, and the liveness files of the clients ahead.
//!
//! A watch is always set before the look that it is to keep true, so that nothing happens unseen between the two.
//!
//! The clients ahead are those of the last look. Whoever comes to stand behind others, since the one before it has left
//! or was granted beside other holders, is nudged, and looks anew.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::bell::Bell;
use super::database::Identity;
use super::fault;
use super::layout::read::{self, Standing};
use super::liveness::{Census, ClientId, Clients};
use super::watch::{Subject, Ticket, Watches};
use crate::store::{ClaimId, ClaimKey, Revision, SessionId, Wake};
use crate::{LockName, Result};

/// What somebody waits for.
#[derive(Clone, Debug)]
pub(super) enum Watching {
    Claim(ClaimKey),
    Name(LockName, Revision),
}

/// All who wait, and what they wait for.
#[derive(Debug)]
pub(super) struct Waiters {
    db: Connection,
    file: Identity,
    clients: Clients,
    own: ClientId,
    watches: Watches,
    waiting: HashMap<Ticket, Waiter>,
    /// Those who look from time to time: their bell cannot be watched, since the user has no watches left, or a client
    /// before them is just ending.
    blind: HashSet<Ticket>,
    /// The claims that are waited for, by their session, since one query tells what was granted to all of them.
    sessions: HashMap<SessionId, Sleepers>,
    names: HashMap<LockName, HashSet<Ticket>>,
}

#[derive(Debug)]
struct Waiter {
    what: Watching,
    reply: oneshot::Sender<Result<Wake>>,
    subjects: HashSet<Subject>,
}

#[derive(Debug, Default)]
struct Sleepers {
    nudges: Option<i64>,
    claims: HashMap<ClaimId, HashSet<Ticket>>,
}

impl Waiters {
    pub(super) fn new(db: Connection, file: Identity, bells: PathBuf, clients: Clients, own: ClientId) -> Self {
        Self {
            db,
            file,
            watches: Watches::new(bells, clients.clone()),
            clients,
            own,
            waiting: HashMap::new(),
            blind: HashSet::new(),
            sessions: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Looks at the file, if it is still the one at its path.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Connection, &mut Census<'_>) -> rusqlite::Result<T>) -> Result<T> {
        self.file.check()?;
        let mut census = Census::new(&self.clients, &self.own);
        look(&self.db, &mut census).map_err(|e| fault::undone(self.file.path(), e))
    }

    /// How many wait, and how many files are watched for them.
    #[cfg(test)]
    pub(super) fn left(&self) -> (usize, usize) {
        (self.waiting.len(), self.watches.len())
    }

    /// Readable when there is something to [listen](Self::listen) to.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watches.descriptor()
    }

    /// Whether somebody has to look again without any news.
    pub(super) fn any_blind(&self) -> bool {
        !self.blind.is_empty()
    }

    /// Begins to watch, and looks: what one waits for may be there already.
    pub(super) fn add(&mut self, ticket: Ticket, what: Watching, reply: oneshot::Sender<Result<Wake>>) {
        self.waiting.insert(ticket, Waiter { what: what.clone(), reply, subjects: HashSet::new() });
        let listed = match &what {
            Watching::Claim(key) => self.add_claim(ticket, key),
            Watching::Name(name, _) => {
                self.watch(ticket, Subject::Bell(Bell::of_name(name)));
                self.names.entry(name.clone()).or_default().insert(ticket);
                Ok(())
            }
        };
        let looked = listed.and_then(|()| self.look_for(ticket, &what));
        self.answer(ticket, looked);
    }

    fn answer(&mut self, ticket: Ticket, looked: rusqlite::Result<Option<Wake>>) {
        match looked {
            Ok(None) => {}
            Ok(Some(wake)) => self.wake(ticket, Ok(wake)),
            Err(e) => self.wake(ticket, Err(fault::undone(self.file.path(), e))),
        }
    }

    fn add_claim(&mut self, ticket: Ticket, key: &ClaimKey) -> rusqlite::Result<()> {
        self.watch(ticket, Subject::Bell(Bell::of_session(&key.session)));
        if !self.sessions.contains_key(&key.session) {
            let sleepers = Sleepers { nudges: read::nudges(&self.db, &key.session)?, claims: HashMap::new() };
            self.sessions.insert(key.session.clone(), sleepers);
        }
        if let Some(sleepers) = self.sessions.get_mut(&key.session) {
            sleepers.claims.entry(key.id).or_default().insert(ticket);
        }
        Ok(())
    }

    /// Whether what one waits for is there.
    fn look_for(&mut self, ticket: Ticket, what: &Watching) -> rusqlite::Result<Option<Wake>> {
        let key = match what {
            Watching::Claim(key) => key,
            Watching::Name(name, seen) => {
                return Ok((read::revision(&self.db, name)? != *seen).then_some(Wake::Changed));
            }
        };
        match read::standing(&self.db, key, super::now())? {
            Standing::Absent => Ok(Some(Wake::Changed)),
            Standing::Granted(token) => Ok(Some(Wake::Granted { token })),
            Standing::Behind(ahead) => Ok(self.watch_clients(ticket, ahead)),
        }
    }

    /// Watches the clients ahead, and tells if one has died already: then it is worth while to claim again.
    fn watch_clients(&mut self, ticket: Ticket, ahead: Vec<ClientId>) -> Option<Wake> {
        for client in ahead {
            if client == self.own {
                continue;
            }
            self.watch(ticket, Subject::Client(Arc::clone(&client)));
            if self.clients.is_dead(&client) {
                return Some(Wake::Changed);
            }
        }
        None
    }

    fn watch(&mut self, ticket: Ticket, subject: Subject) {
        match (self.watches.add(ticket, &subject), self.waiting.get_mut(&ticket)) {
            (Ok(()), Some(waiter)) => drop(waiter.subjects.insert(subject)),
            (Err(_), Some(_)) if matches!(subject, Subject::Bell(_)) => drop(self.blind.insert(ticket)),
            // A client that cannot be watched costs time only if it dies: the store has said when to look again.
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        drop(self.take(ticket));
    }

    fn wake(&mut self, ticket: Ticket, wake: Result<Wake>) {
        if let Some(waiter) = self.take(ticket) {
            // Nobody listens any more when the future was dropped.
            drop(waiter.reply.send(wake));
        }
    }

    fn wake_all(&mut self, subject: &Subject) {
        for ticket in self.watches.tickets(subject) {
            self.wake(ticket, Ok(Wake::Changed));
        }
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiting.remove(&ticket)?;
        self.blind.remove(&ticket);
        match &waiter.what {
            Watching::Claim(key) => self.leave_session(ticket, key),
            Watching::Name(name, _) => self.leave_name(ticket, name),
        }
        for subject in &waiter.subjects {
            self.watches.remove(ticket, subject);
        }
        Some(waiter)
    }

    fn leave_session(&mut self, ticket: Ticket, key: &ClaimKey) {
        let Some(sleepers) = self.sessions.get_mut(&key.session) else { return };
        if let Some(tickets) = sleepers.claims.get_mut(&key.id) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                sleepers.claims.remove(&key.id);
            }
        }
        if sleepers.claims.is_empty() {
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

    /// Takes in what inotify has to tell.
    pub(super) fn listen(&mut self) {
        let news = self.watches.news();
        for subject in &news.unseen {
            self.wake_all(subject);
        }
        for subject in &news.of {
            self.hear(subject);
        }
    }

    /// Looks for those who hear nothing.
    pub(super) fn look_for_the_blind(&mut self) {
        for ticket in self.blind.iter().copied().collect::<Vec<_>>() {
            self.look_again(ticket);
        }
    }

    fn look_again(&mut self, ticket: Ticket) {
        if let Some(what) = self.waiting.get(&ticket).map(|waiter| waiter.what.clone()) {
            let looked = self.look_for(ticket, &what);
            self.answer(ticket, looked);
        }
    }

    fn hear(&mut self, subject: &Subject) {
        match subject {
            Subject::Client(client) if self.clients.has_just_died(client) => self.wake_all(subject),
            // Not yet: on a busy machine the lock may be let go of much later than the file was closed.
            Subject::Client(_) => self.blind.extend(self.watches.tickets(subject)),
            Subject::Bell(bell) => {
                if self.hear_bell(*bell).is_err() {
                    // Those who wait look for themselves, and get to know the error.
                    self.wake_all(subject);
                }
            }
        }
    }

    fn hear_bell(&mut self, bell: Bell) -> rusqlite::Result<()> {
        let sessions = self.sessions.keys().filter(|session| Bell::of_session(session) == bell);
        for session in sessions.cloned().collect::<Vec<_>>() {
            self.look_at_session(&session)?;
        }
        let names = self.names.keys().filter(|name| Bell::of_name(name) == bell);
        for name in names.cloned().collect::<Vec<_>>() {
            self.look_at_name(&name)?;
        }
        Ok(())
    }

    /// Wakes those whose claims were granted, and, if claims of the session were removed, those whose claims are gone.
    fn look_at_session(&mut self, session: &SessionId) -> rusqlite::Result<()> {
        let pushed = read::pushed(&self.db, session)?;
        let mut wakes: Vec<_> = pushed.into_iter().map(|(id, token)| (id, Wake::Granted { token })).collect();
        let nudges = read::nudges(&self.db, session)?;
        let Some(sleepers) = self.sessions.get_mut(session) else { return Ok(()) };
        if sleepers.nudges != nudges || nudges.is_none() {
            sleepers.nudges = nudges;
            let present = read::ids(&self.db, session)?;
            let absent = sleepers.claims.keys().filter(|id| !present.contains(*id));
            wakes.extend(absent.map(|id| (*id, Wake::Changed)));
            self.look_anew(session);
        }
        for (id, wake) in wakes {
            let sleepers = self.sessions.get(session).and_then(|sleepers| sleepers.claims.get(&id));
            for ticket in sleepers.into_iter().flatten().copied().collect::<Vec<_>>() {
                self.wake(ticket, Ok(wake));
            }
        }
        Ok(())
    }

    /// Others may stand before the claims of a session than at the last look.
    fn look_anew(&mut self, session: &SessionId) {
        let tickets = self.sessions.get(session).into_iter().flat_map(|sleepers| sleepers.claims.values().flatten());
        for ticket in tickets.copied().collect::<Vec<_>>() {
            self.look_again(ticket);
        }
    }

    fn look_at_name(&mut self, name: &LockName) -> rusqlite::Result<()> {
        let revision = read::revision(&self.db, name)?;
        let tickets: Vec<Ticket> = self.names.get(name).into_iter().flatten().copied().collect();
        for ticket in tickets {
            let what = self.waiting.get(&ticket).map(|waiter| &waiter.what);
            if matches!(what, Some(Watching::Name(_, seen)) if *seen != revision) {
                self.wake(ticket, Ok(Wake::Changed));
            }
        }
        Ok(())
    }
}
