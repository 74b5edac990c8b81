//! The looks of the waiters, and the events and times that wake a waiter.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rusqlite::Connection;

use super::registry::{Registry, Reply, Watching};
use crate::database::Database;
use crate::fault;
use crate::files::Identity;
use crate::layout::read::{self, ClaimStatus, Predecessors};
use crate::layout::times::{self, Micros};
use crate::liveness::{ClientId, Clients, DeadClientCheck};
use crate::notify::{NotifyFile, NotifyFolder};
use crate::settling::Settling;
use crate::store::{ClaimKey, Revision, SessionId, Wake};
use crate::watch::{Subject, Ticket, Watches};
use crate::{LockName, Result};

/// All waiters, and what they look at.
pub(crate) struct Waiters {
    db: Database,
    file: Identity,
    clients: Clients,
    own: ClientId,
    registry: Registry,
    settling: Settling,
}

impl Waiters {
    pub(crate) fn new(
        db: Database,
        file: Identity,
        notify_folder: NotifyFolder,
        clients: Clients,
        own: ClientId,
        settling: Settling,
    ) -> Self {
        Self {
            db,
            file,
            registry: Registry::new(Watches::new(notify_folder, clients.clone())),
            clients,
            own,
            settling,
        }
    }

    /// Reads the file, if it is still the file at its path.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(&Connection, &mut DeadClientCheck<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.file.check()?;
        let mut dead_clients = DeadClientCheck::new(&self.clients, &self.own);
        look(&self.db, &mut dead_clients).map_err(|e| fault::undone(self.file.path(), e))
    }

    /// The number of waiters, and of watched files.
    #[cfg(test)]
    pub(crate) fn left(&self) -> (usize, usize) {
        self.registry.left()
    }

    /// Readable when there are events to [read](Self::listen).
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.registry.descriptor()
    }

    /// Whether a waiter has to look again without any news.
    pub(crate) fn any_polling(&self) -> bool {
        self.registry.any_polling()
    }

    /// When the next waiter has to look without an event, if any has to.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        self.registry.next_due()
    }

    /// Begins a watch, and looks: the awaited change may be there already.
    pub(crate) fn add(&mut self, ticket: Ticket, what: Watching, reply: Reply) {
        self.registry.insert(ticket, what.clone(), reply);
        let listed = match &what {
            Watching::Claim(key) => self.add_claim(ticket, key),
            Watching::Name(name, _) => {
                self.registry.watch(ticket, Subject::Notify(NotifyFile::of_name(name)));
                self.registry.add_name(ticket, name);
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
        self.registry.watch(ticket, Subject::Notify(NotifyFile::of_session(&key.session)));
        if !self.registry.knows(&key.session) {
            let wake_count = read::wake_count(&self.db, &key.session)?;
            self.registry.add_session(&key.session, wake_count);
        }
        self.registry.add_claim(ticket, key);
        Ok(())
    }

    /// Returns whether the awaited change is there.
    fn look_for(&mut self, ticket: Ticket, what: &Watching) -> rusqlite::Result<Option<Wake>> {
        let now = times::now();
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
    fn watch_predecessors(
        &mut self,
        ticket: Ticket,
        predecessors: Predecessors,
        now: Micros,
    ) -> bool {
        self.registry.set_due(ticket, predecessors.ends.filter(|at| *at > now));
        let mut ended = predecessors.ends.is_some_and(|at| at <= now);
        for client in predecessors.clients {
            if client != self.own {
                self.registry.watch(ticket, Subject::Client(Arc::clone(&client)));
                ended |= self.clients.is_dead(&client);
            }
        }
        ended
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) {
        drop(self.registry.take(ticket));
    }

    fn wake(&mut self, ticket: Ticket, wake: Result<Wake>) {
        if let Some(reply) = self.registry.take(ticket) {
            // The receiver is gone if the future was dropped.
            drop(reply.send(wake));
        }
    }

    fn wake_all(&mut self, subject: &Subject) {
        for ticket in self.registry.on_subject(subject) {
            self.wake(ticket, Ok(Wake::Changed));
        }
    }

    /// Reads the events of inotify.
    pub(crate) fn listen(&mut self) {
        let news = self.registry.news();
        for subject in &news.unseen {
            match subject {
                Subject::Notify(_) => self.wake_all(subject),
                // The file was removed, since the client's end is recorded; or an event of the file
                // was lost.
                Subject::Client(_) => self.watch_again(subject),
            }
        }
        for subject in &news.of {
            self.on_news(subject);
        }
    }

    fn watch_again(&mut self, subject: &Subject) {
        self.registry.unwatch(subject).into_iter().for_each(|ticket| self.look_again(ticket));
    }

    /// Looks for the waiters without a watch.
    pub(crate) fn look_without_watches(&mut self) {
        for ticket in self.registry.polling() {
            self.look_again(ticket);
        }
    }

    /// Looks for the waiters whose time has come.
    pub(crate) fn look_for_the_due(&mut self) {
        let now = times::now();
        while let Some(ticket) = self.registry.take_due(now) {
            self.look_again(ticket);
        }
    }

    fn look_again(&mut self, ticket: Ticket) {
        if let Some(what) = self.registry.what(ticket).cloned() {
            let looked = self.look_for(ticket, &what);
            self.answer(ticket, looked);
        }
    }

    fn on_news(&mut self, subject: &Subject) {
        match subject {
            Subject::Client(client) => {
                let tickets = self.registry.on_subject(subject);
                if !self.clients.has_just_died(client) {
                    // Not yet: on a busy machine the lock may be let go of much later than the file
                    // was closed.
                    self.registry.poll(&tickets);
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
        for session in self.registry.sessions_on(file) {
            self.look_at_session(&session)?;
        }
        for name in self.registry.names_on(file) {
            self.look_at_name(&name)?;
        }
        Ok(())
    }

    /// Wakes the waiters with granted claims, and, if claims of the session were removed, the
    /// waiters without claims.
    fn look_at_session(&mut self, session: &SessionId) -> rusqlite::Result<()> {
        let pushed = read::pushed(&self.db, session)?;
        let mut wakes: Vec<_> =
            pushed.into_iter().map(|(id, token)| (id, Wake::Granted { token })).collect();
        let wake_count = read::wake_count(&self.db, session)?;
        let Some(waiters) = self.registry.session_mut(session) else { return Ok(()) };
        if waiters.wake_count != wake_count || wake_count.is_none() {
            waiters.wake_count = wake_count;
            let present = read::ids(&self.db, session)?;
            let absent = waiters.ids().filter(|id| !present.contains(*id));
            wakes.extend(absent.map(|id| (*id, Wake::Changed)));
            self.look_for_session(session);
        }
        for (id, wake) in wakes {
            for ticket in self.registry.of_claim(session, &id) {
                self.wake(ticket, Ok(wake));
            }
        }
        Ok(())
    }

    /// The claims of a session may have other predecessors than at the last look.
    fn look_for_session(&mut self, session: &SessionId) {
        for ticket in self.registry.of_session(session) {
            self.look_again(ticket);
        }
    }

    fn look_at_name(&mut self, name: &LockName) -> rusqlite::Result<()> {
        let revision = read::revision(&self.db, name)?;
        for ticket in self.registry.of_name(name) {
            match self.registry.what(ticket) {
                Some(Watching::Name(_, seen)) if *seen != revision => {
                    self.wake(ticket, Ok(Wake::Changed))
                }
                _ => self.look_again(ticket),
            }
        }
        Ok(())
    }
}
