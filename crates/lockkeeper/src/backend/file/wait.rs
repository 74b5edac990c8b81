//! Waiting: bells that others ring, and the liveness files of the clients ahead.
//!
//! A watch is always set before the look that it is to keep true, so that nothing happens unseen between the two.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::sync::oneshot;

use super::bell::Bell;
use super::fault;
use super::layout::read::{self, Standing};
use super::liveness::{Census, ClientId, Clients};
use crate::store::{ClaimId, ClaimKey, Revision, SessionId, Wake};
use crate::{LockName, Result};

/// A number for one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

impl Ticket {
    pub(super) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// What somebody waits for.
#[derive(Clone, Debug)]
pub(super) enum Watching {
    Claim(ClaimKey),
    Name(LockName, Revision),
}

/// What inotify watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Bell(Bell),
    Client(ClientId),
}

/// All who wait, what they wait for, and what is watched for them.
#[derive(Debug)]
pub(super) struct Waiters {
    db: Connection,
    path: PathBuf,
    bells: PathBuf,
    clients: Clients,
    own: ClientId,
    inotify: OwnedFd,
    waiting: HashMap<Ticket, Waiter>,
    /// The claims that are waited for, by their session, since one query tells what was granted to all of them.
    sessions: HashMap<SessionId, Sleepers>,
    names: HashMap<LockName, HashSet<Ticket>>,
    watches: HashMap<Subject, Watch>,
    subjects: HashMap<i32, Subject>,
}

#[derive(Debug)]
struct Waiter {
    what: Watching,
    reply: oneshot::Sender<Result<Wake>>,
    subjects: Vec<Subject>,
}

#[derive(Debug, Default)]
struct Sleepers {
    nudges: Option<i64>,
    claims: HashMap<ClaimId, HashSet<Ticket>>,
}

#[derive(Debug)]
struct Watch {
    descriptor: i32,
    tickets: HashSet<Ticket>,
}

impl Waiters {
    pub(super) fn new(
        db: Connection,
        path: PathBuf,
        bells: PathBuf,
        clients: Clients,
        own: ClientId,
    ) -> std::io::Result<Self> {
        Ok(Self {
            db,
            path,
            bells,
            clients,
            own,
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            waiting: HashMap::new(),
            sessions: HashMap::new(),
            names: HashMap::new(),
            watches: HashMap::new(),
            subjects: HashMap::new(),
        })
    }

    pub(super) fn db(&self) -> &Connection {
        &self.db
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn census(&self) -> Census<'_> {
        Census::new(&self.clients, &self.own)
    }

    /// How many wait, and how many files are watched for them.
    #[cfg(test)]
    pub(super) fn left(&self) -> (usize, usize) {
        (self.waiting.len(), self.watches.len())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Begins to watch, and looks: what one waits for may be there already.
    pub(super) fn add(&mut self, ticket: Ticket, what: Watching, reply: oneshot::Sender<Result<Wake>>) {
        self.waiting.insert(ticket, Waiter { what: what.clone(), reply, subjects: Vec::new() });
        let looked = match &what {
            Watching::Claim(key) => self.add_claim(ticket, key),
            Watching::Name(name, seen) => self.add_name(ticket, name, *seen),
        };
        match looked {
            Ok(None) => {}
            Ok(Some(wake)) => self.wake(ticket, Ok(wake)),
            Err(e) => self.wake(ticket, Err(fault::undone(&self.path, e))),
        }
    }

    fn add_claim(&mut self, ticket: Ticket, key: &ClaimKey) -> rusqlite::Result<Option<Wake>> {
        self.watch(ticket, Subject::Bell(Bell::of_session(key.session.as_str())));
        if !self.sessions.contains_key(&key.session) {
            let sleepers = Sleepers { nudges: read::nudges(&self.db, &key.session)?, claims: HashMap::new() };
            self.sessions.insert(key.session.clone(), sleepers);
        }
        if let Some(sleepers) = self.sessions.get_mut(&key.session) {
            sleepers.claims.entry(key.id).or_default().insert(ticket);
        }
        let ahead = match read::standing(&self.db, key)? {
            Standing::Absent => return Ok(Some(Wake::Changed)),
            Standing::Granted(token) => return Ok(Some(Wake::Granted { token })),
            Standing::Behind(ahead) => ahead,
        };
        for client in ahead {
            if client == self.own {
                continue;
            }
            self.watch(ticket, Subject::Client(Arc::clone(&client)));
            if self.clients.is_dead(&client) {
                return Ok(Some(Wake::Changed));
            }
        }
        Ok(None)
    }

    fn add_name(&mut self, ticket: Ticket, name: &LockName, seen: Revision) -> rusqlite::Result<Option<Wake>> {
        self.watch(ticket, Subject::Bell(Bell::of_name(name)));
        self.names.entry(name.clone()).or_default().insert(ticket);
        Ok((read::revision(&self.db, name)? != seen).then_some(Wake::Changed))
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

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiting.remove(&ticket)?;
        match &waiter.what {
            Watching::Claim(key) => self.leave_session(ticket, key),
            Watching::Name(name, _) => {
                if let Some(tickets) = self.names.get_mut(name) {
                    tickets.remove(&ticket);
                    if tickets.is_empty() {
                        self.names.remove(name);
                    }
                }
            }
        }
        for subject in &waiter.subjects {
            self.unwatch(ticket, subject);
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

    /// A watch that cannot be set (no descriptor left, no file) costs time, for the store has said when to look again.
    fn watch(&mut self, ticket: Ticket, subject: Subject) {
        if !self.watches.contains_key(&subject) {
            let Ok(descriptor) = self.begin_watch(&subject) else { return };
            self.subjects.insert(descriptor, subject.clone());
            self.watches.insert(subject.clone(), Watch { descriptor, tickets: HashSet::new() });
        }
        if let Some(watch) = self.watches.get_mut(&subject) {
            watch.tickets.insert(ticket);
        }
        if let Some(waiter) = self.waiting.get_mut(&ticket) {
            waiter.subjects.push(subject);
        }
    }

    fn begin_watch(&self, subject: &Subject) -> std::io::Result<i32> {
        let (path, news) = match subject {
            Subject::Bell(bell) => (bell.hang(&self.bells)?, WatchFlags::MODIFY),
            Subject::Client(client) => (self.clients.path(client), WatchFlags::CLOSE_WRITE),
        };
        Ok(inotify::add_watch(&self.inotify, &path, news)?)
    }

    fn unwatch(&mut self, ticket: Ticket, subject: &Subject) {
        let Some(watch) = self.watches.get_mut(subject) else { return };
        watch.tickets.remove(&ticket);
        if watch.tickets.is_empty() {
            // It fails if the file is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.inotify, watch.descriptor);
            self.subjects.remove(&watch.descriptor);
            self.watches.remove(subject);
        }
    }

    /// Takes in what inotify has to tell.
    pub(super) fn listen(&mut self) {
        let mut news = HashSet::new();
        let mut gone = HashSet::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                gone.extend(self.subjects.values().cloned());
            } else if let Some(subject) = self.subjects.get(&event.wd()) {
                let ended = event.events().intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT);
                if ended {
                    gone.insert(subject.clone())
                } else {
                    news.insert(subject.clone())
                };
            }
        }
        for subject in &gone {
            self.wake_all(subject);
        }
        for subject in &news {
            self.hear(subject);
        }
    }

    fn hear(&mut self, subject: &Subject) {
        match subject {
            Subject::Client(client) if self.clients.has_just_died(client) => self.wake_all(subject),
            Subject::Client(_) => {}
            Subject::Bell(bell) => {
                if self.hear_bell(*bell).is_err() {
                    // Those who wait look for themselves, and get to know the error.
                    self.wake_all(subject);
                }
            }
        }
    }

    fn hear_bell(&mut self, bell: Bell) -> rusqlite::Result<()> {
        let sessions = self.sessions.keys().filter(|session| Bell::of_session(session.as_str()) == bell);
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
        let mut wakes: Vec<(ClaimId, Wake)> =
            read::pushed(&self.db, session)?.into_iter().map(|(id, token)| (id, Wake::Granted { token })).collect();
        let nudges = read::nudges(&self.db, session)?;
        let Some(sleepers) = self.sessions.get_mut(session) else { return Ok(()) };
        if sleepers.nudges != nudges || nudges.is_none() {
            sleepers.nudges = nudges;
            let present = read::ids(&self.db, session)?;
            let absent = sleepers.claims.keys().filter(|id| !present.contains(*id));
            wakes.extend(absent.map(|id| (*id, Wake::Changed)));
        }
        for (id, wake) in wakes {
            let sleepers = self.sessions.get(session).and_then(|s| s.claims.get(&id));
            for ticket in sleepers.into_iter().flatten().copied().collect::<Vec<_>>() {
                self.wake(ticket, Ok(wake));
            }
        }
        Ok(())
    }

    fn look_at_name(&mut self, name: &LockName) -> rusqlite::Result<()> {
        let revision = read::revision(&self.db, name)?;
        let tickets: Vec<Ticket> = self.names.get(name).into_iter().flatten().copied().collect();
        for ticket in tickets {
            let seen = self.waiting.get(&ticket).map(|waiter| &waiter.what);
            if matches!(seen, Some(Watching::Name(_, seen)) if *seen != revision) {
                self.wake(ticket, Ok(Wake::Changed));
            }
        }
        Ok(())
    }

    fn wake_all(&mut self, subject: &Subject) {
        let tickets = self.watches.get(subject).map(|watch| watch.tickets.clone());
        for ticket in tickets.into_iter().flatten() {
            self.wake(ticket, Ok(Wake::Changed));
        }
    }
}
