//! Waiting: notification files that other clients write to, and the liveness files of the clients ahead.
//!
//! A watch always begins before the look that it protects, so that no event is missed between the
//! two.
//!
//! The clients ahead are those of the last look. A waiter is woken, and looks again, when its predecessor has left or
//! was granted beside other holders.
//!
//! Every claim ahead ends with its client, which is watched, or at a known time, at which the
//! waiter looks again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::Identity;
use super::layout::Micros;
use super::layout::read::{self, ClaimStatus, Predecessors};
use super::liveness::{ClientId, Clients, DeadClientCheck};
use super::notify::NotifyFile;
use super::settling::Settling;
use super::watch::{Subject, Ticket, Watches};
use super::{FileStore, fault, reader};
use crate::store::{ClaimId, ClaimKey, Interest, Revision, SessionId, Wake};
use crate::time::Clock;
use crate::{LockName, Result};

/// The subject of a wait.
#[derive(Clone, Debug)]
pub(super) enum Watching {
    Claim(ClaimKey),
    Name(LockName, Revision),
}

/// All waiters, and the subjects of their waits.
pub(super) struct Waiters {
    db: Connection,
    file: Identity,
    clients: Clients,
    own: ClientId,
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
    settling: Settling,
}

struct Waiter {
    what: Watching,
    reply: oneshot::Sender<Result<Wake>>,
    subjects: HashSet<Subject>,
    due: Option<Micros>,
}

#[derive(Debug, Default)]
struct SessionWaiters {
    wake_count: Option<i64>,
    claims: HashMap<ClaimId, HashSet<Ticket>>,
}

/// Waits for a claim, or for the change of a line: the thread of the reader looks, and answers.
pub(super) async fn wait(store: &FileStore, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
    let what = match interest {
        Interest::Claim(key) => Watching::Claim(key.clone()),
        Interest::Name(name) => Watching::Name(name.clone(), seen),
    };
    let (_registered, woken) = store.0.reader.wait(what);
    match Clock::boot().timeout(within, woken).await {
        None => Ok(Wake::Elapsed),
        Some(woken) => woken.unwrap_or_else(|_| Err(reader::ended())),
    }
}

impl Waiters {
    pub(super) fn new(
        db: Connection,
        file: Identity,
        notify_folder: PathBuf,
        clients: Clients,
        own: ClientId,
        settling: Settling,
    ) -> Self {
        Self {
            db,
            file,
            watches: Watches::new(notify_folder, clients.clone()),
            clients,
            own,
            waiting: HashMap::new(),
            polling: HashSet::new(),
            due: BTreeSet::new(),
            sessions: HashMap::new(),
            names: HashMap::new(),
            settling,
        }
    }

    /// Reads the file, if it is still the file at its path.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&Connection, &mut DeadClientCheck<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.file.check()?;
        let mut dead_clients = DeadClientCheck::new(&self.clients, &self.own);
        look(&self.db, &mut dead_clients).map_err(|e| fault::undone(self.file.path(), e))
    }

    /// The number of waiters, and of watched files.
    #[cfg(test)]
    pub(super) fn left(&self) -> (usize, usize) {
        (self.waiting.len(), self.watches.len())
    }

    /// Readable when there are events to [read](Self::listen).
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

    /// Begins a watch, and looks: the awaited change may be there already.
    pub(super) fn add(&mut self, ticket: Ticket, what: Watching, reply: oneshot::Sender<Result<Wake>>) {
        self.waiting.insert(ticket, Waiter { what: what.clone(), reply, subjects: HashSet::new(), due: None });
        let listed = match &what {
            Watching::Claim(key) => self.add_claim(ticket, key),
            Watching::Name(name, _) => {
                self.watch(ticket, Subject::Notify(NotifyFile::of_name(name)));
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
        self.watch(ticket, Subject::Notify(NotifyFile::of_session(&key.session)));
        if !self.sessions.contains_key(&key.session) {
            let waiters =
                SessionWaiters { wake_count: read::wake_count(&self.db, &key.session)?, claims: HashMap::new() };
            self.sessions.insert(key.session.clone(), waiters);
        }
        if let Some(waiters) = self.sessions.get_mut(&key.session) {
            waiters.claims.entry(key.id).or_default().insert(ticket);
        }
        Ok(())
    }

    /// Returns whether the awaited change is there.
    fn look_for(&mut self, ticket: Ticket, what: &Watching) -> rusqlite::Result<Option<Wake>> {
        let now = super::now();
        let key = match what {
            Watching::Claim(key) => key,
            Watching::Name(name, seen) => return self.look_for_change(ticket, name, *seen, now),
        };
        match read::status(&self.db, key, now)? {
            ClaimStatus::Absent => Ok(Some(Wake::Changed)),
            ClaimStatus::Granted(token) => Ok(Some(Wake::Granted { token })),
            // Another claim is useful: it removes ended claims.
            ClaimStatus::Behind(predecessors) => {
                Ok(self.watch_predecessors(ticket, predecessors, now).then_some(Wake::Changed))
            }
        }
    }

    /// An observer cannot remove ended claims, so the writer does. That changes the line.
    fn look_for_change(
        &mut self,
        ticket: Ticket,
        name: &LockName,
        seen: Revision,
        now: Micros,
    ) -> rusqlite::Result<Option<Wake>> {
        if read::revision(&self.db, name)? != seen {
            return Ok(Some(Wake::Changed));
        }
        let holders = read::holders(&self.db, name, now)?;
        if self.watch_predecessors(ticket, holders, now) {
            self.settling.ask(name);
        }
        Ok(None)
    }

    /// Watches the claims ahead, and returns whether one of them has ended already.
    fn watch_predecessors(&mut self, ticket: Ticket, predecessors: Predecessors, now: Micros) -> bool {
        self.set_due(ticket, predecessors.ends.filter(|at| *at > now));
        let mut ended = predecessors.ends.is_some_and(|at| at <= now);
        for client in predecessors.clients {
            if client != self.own {
                self.watch(ticket, Subject::Client(Arc::clone(&client)));
                ended |= self.clients.is_dead(&client);
            }
        }
        ended
    }

    fn set_due(&mut self, ticket: Ticket, at: Option<Micros>) {
        let Some(waiter) = self.waiting.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut waiter.due, at);
        before.map(|before| self.due.remove(&(before, ticket)));
        self.due.extend(at.map(|at| (at, ticket)));
    }

    fn watch(&mut self, ticket: Ticket, subject: Subject) {
        match (self.watches.add(ticket, &subject), self.waiting.get_mut(&ticket)) {
            (Ok(()), Some(waiter)) => drop(waiter.subjects.insert(subject)),
            (Err(_), Some(_)) => drop(self.polling.insert(ticket)),
            (_, None) => {}
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        drop(self.take(ticket));
    }

    fn wake(&mut self, ticket: Ticket, wake: Result<Wake>) {
        if let Some(waiter) = self.take(ticket) {
            // The receiver is gone if the future was dropped.
            drop(waiter.reply.send(wake));
        }
    }

    fn wake_all(&mut self, subject: &Subject) {
        for ticket in self.watches.tickets(subject) {
            self.wake(ticket, Ok(Wake::Changed));
        }
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
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
        Some(waiter)
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

    /// Reads the events of inotify.
    pub(super) fn listen(&mut self) {
        let news = self.watches.news();
        for subject in &news.unseen {
            match subject {
                Subject::Notify(_) => self.wake_all(subject),
                // The file was removed, since the client's end is recorded; or an event of it was
                // lost.
                Subject::Client(_) => self.watch_again(subject),
            }
        }
        for subject in &news.of {
            self.on_news(subject);
        }
    }

    fn watch_again(&mut self, subject: &Subject) {
        let tickets = self.watches.tickets(subject);
        for ticket in &tickets {
            self.watches.remove(*ticket, subject);
            self.waiting.get_mut(ticket).map(|waiter| waiter.subjects.remove(subject));
        }
        tickets.into_iter().for_each(|ticket| self.look_again(ticket));
    }

    /// Looks for the waiters without a watch.
    pub(super) fn look_without_watches(&mut self) {
        for ticket in self.polling.iter().copied().collect::<Vec<_>>() {
            self.look_again(ticket);
        }
    }

    /// Looks for the waiters whose time has come.
    pub(super) fn look_for_the_due(&mut self) {
        let now = super::now();
        while let Some((_, ticket)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.set_due(ticket, None);
            self.look_again(ticket);
        }
    }

    fn look_again(&mut self, ticket: Ticket) {
        if let Some(what) = self.waiting.get(&ticket).map(|waiter| waiter.what.clone()) {
            let looked = self.look_for(ticket, &what);
            self.answer(ticket, looked);
        }
    }

    fn on_news(&mut self, subject: &Subject) {
        match subject {
            Subject::Client(client) => {
                let tickets = self.watches.tickets(subject);
                if !self.clients.has_just_died(client) {
                    // Not yet: on a busy machine the lock may be let go of much later than the file was closed.
                    self.polling.extend(&tickets);
                }
                tickets.into_iter().for_each(|ticket| self.look_again(ticket));
            }
            Subject::Notify(file) => {
                if self.on_notify(*file).is_err() {
                    // The waiters look for themselves, and get the error.
                    self.wake_all(subject);
                }
            }
        }
    }

    fn on_notify(&mut self, file: NotifyFile) -> rusqlite::Result<()> {
        let sessions = self.sessions.keys().filter(|session| NotifyFile::of_session(session) == file);
        for session in sessions.cloned().collect::<Vec<_>>() {
            self.look_at_session(&session)?;
        }
        let names = self.names.keys().filter(|name| NotifyFile::of_name(name) == file);
        for name in names.cloned().collect::<Vec<_>>() {
            self.look_at_name(&name)?;
        }
        Ok(())
    }

    /// Wakes the waiters with granted claims, and, if claims of the session were removed, the
    /// waiters without claims.
    fn look_at_session(&mut self, session: &SessionId) -> rusqlite::Result<()> {
        let pushed = read::pushed(&self.db, session)?;
        let mut wakes: Vec<_> = pushed.into_iter().map(|(id, token)| (id, Wake::Granted { token })).collect();
        let wake_count = read::wake_count(&self.db, session)?;
        let Some(waiters) = self.sessions.get_mut(session) else { return Ok(()) };
        if waiters.wake_count != wake_count || wake_count.is_none() {
            waiters.wake_count = wake_count;
            let present = read::ids(&self.db, session)?;
            let absent = waiters.claims.keys().filter(|id| !present.contains(*id));
            wakes.extend(absent.map(|id| (*id, Wake::Changed)));
            self.look_for_session(session);
        }
        for (id, wake) in wakes {
            let waiters = self.sessions.get(session).and_then(|waiters| waiters.claims.get(&id));
            for ticket in waiters.into_iter().flatten().copied().collect::<Vec<_>>() {
                self.wake(ticket, Ok(wake));
            }
        }
        Ok(())
    }

    /// The claims of a session may have other predecessors than at the last look.
    fn look_for_session(&mut self, session: &SessionId) {
        let tickets = self.sessions.get(session).into_iter().flat_map(|waiters| waiters.claims.values().flatten());
        for ticket in tickets.copied().collect::<Vec<_>>() {
            self.look_again(ticket);
        }
    }

    fn look_at_name(&mut self, name: &LockName) -> rusqlite::Result<()> {
        let revision = read::revision(&self.db, name)?;
        let tickets: Vec<Ticket> = self.names.get(name).into_iter().flatten().copied().collect();
        for ticket in tickets {
            match self.waiting.get(&ticket).map(|waiter| &waiter.what) {
                Some(Watching::Name(_, seen)) if *seen != revision => self.wake(ticket, Ok(Wake::Changed)),
                _ => self.look_again(ticket),
            }
        }
        Ok(())
    }
}
