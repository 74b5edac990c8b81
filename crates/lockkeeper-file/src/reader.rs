//! The reader: one thread that reads the file for looks and waiters, and wakes waiters when there
//! is news.
//!
//! The reader never goes through the gate, so it works while another process is stopped inside. It
//! alone owns the waiters and the watches, and gets its input from one queue and one inotify
//! descriptor.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rusqlite::Connection;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::sync::oneshot;

use super::fault;
use super::layout::times::{self, Micros};
use super::liveness::DeadClientCheck;
use super::wait::registry::Watching;
use super::wait::waiters::Waiters;
use super::watch::Ticket;
use crate::Result;
use crate::store::Wake;

/// How often the waiters without a watch look.
const POLL_INTERVAL: Micros = 50_000;
/// The longest sleep while a waiter looks at a certain time: a sleep does not count the time of a
/// suspended machine.
const LONGEST_SLEEP: Micros = 1_000_000;

/// A look at the file.
type Look = Box<dyn FnOnce(&Waiters) + Send>;

/// A task for the reader.
enum Task {
    Look(Look),
    Wait(Ticket, Watching, oneshot::Sender<Result<Wake>>),
    Forget(Ticket),
    End,
}

/// The way to the reader's thread, which ends when this is dropped.
pub(super) struct Reader {
    tasks: Sender<Task>,
    wakeup: Arc<OwnedFd>,
}

/// The state of the reader's thread.
pub(super) struct ReaderState {
    tasks: Receiver<Task>,
    wakeup: Arc<OwnedFd>,
    waiters: Waiters,
}

/// A waiter that is forgotten when this is dropped.
pub(super) struct Registered<'a> {
    reader: &'a Reader,
    ticket: Ticket,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

impl Reader {
    pub(super) fn new(waiters: Waiters) -> std::io::Result<(Self, ReaderState)> {
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, receiver) = channel();
        let state = ReaderState { tasks: receiver, wakeup: Arc::clone(&wakeup), waiters };
        Ok((Self { tasks: sender, wakeup }, state))
    }

    /// Looks at the file.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection, &mut DeadClientCheck<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(move |waiters| waiters.look(look)).await
    }

    /// Runs a query on the waiters.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Waiters) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Task::Look(Box::new(move |waiters| {
            // The receiver is gone if the future was dropped.
            if !reply.is_closed() {
                drop(reply.send(ask(waiters)));
            }
        })));
        answer.await.unwrap_or_else(|_| Err(fault::ended()))
    }

    /// Begins a wait. Dropping the result ends it.
    pub(super) fn wait(&self, what: Watching) -> (Registered<'_>, oneshot::Receiver<Result<Wake>>) {
        let (reply, woken) = oneshot::channel();
        let ticket = Ticket::next();
        self.send(Task::Wait(ticket, what, reply));
        (Registered { reader: self, ticket }, woken)
    }

    fn send(&self, task: Task) {
        // If the thread has ended, the task and its reply are dropped, and the waiting caller gets
        // an error.
        let _ = self.tasks.send(task);
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.send(Task::End);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.reader.send(Task::Forget(self.ticket));
    }
}

impl ReaderState {
    /// Works until the [`Reader`] is dropped.
    pub(super) fn run(mut self) {
        loop {
            self.waiters.listen();
            self.waiters.look_without_watches();
            self.waiters.look_for_the_due();
            match self.work() {
                Ok(()) => self.sleep(),
                Err(Ended) => return,
            }
        }
    }

    fn sleep(&self) {
        let asked = PollFd::new(&*self.wakeup, PollFlags::IN);
        let news = self.waiters.descriptor().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut sources: Vec<_> = std::iter::once(asked).chain(news).collect();
        // Interrupted or not: the loop checks whether there is work.
        let _ = poll(&mut sources, self.longest_sleep().as_ref());
        let _ = rustix::io::read(&self.wakeup, &mut [0_u8; 8]);
    }

    /// How long to sleep at most.
    fn longest_sleep(&self) -> Option<Timespec> {
        let polling = self.waiters.any_polling().then_some(POLL_INTERVAL);
        // The sleep is a microsecond longer, so the time has come after it.
        let due =
            self.waiters.next_due().map(|at| at.saturating_sub(times::now()).saturating_add(1));
        let least = polling.into_iter().chain(due.map(|due| due.clamp(0, LONGEST_SLEEP))).min()?;
        Some(Timespec { tv_sec: least / 1_000_000, tv_nsec: least % 1_000_000 * 1000 })
    }

    fn work(&mut self) -> std::result::Result<(), Ended> {
        loop {
            match self.tasks.try_recv() {
                Ok(Task::Look(look)) => look(&self.waiters),
                Ok(Task::Wait(ticket, what, reply)) => self.waiters.add(ticket, what, reply),
                Ok(Task::Forget(ticket)) => self.waiters.remove(ticket),
                Ok(Task::End) | Err(TryRecvError::Disconnected) => return Err(Ended),
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }
}

/// The store was dropped.
struct Ended;
