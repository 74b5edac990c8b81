//! Where lines go. A thread writes them, so that a reader that is slow or stuck keeps nobody from renewing a lock, or
//! from ending a command in time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::child::signals::stop_at_output;
use crate::exit::Failure;
use crate::runtime;

/// How many lines a stuck reader may be behind; what comes then is lost to it.
const BACKLOG: usize = 4096;

/// One file that lines are written to.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    tasks: SyncSender<Task>,
}

#[derive(Debug)]
enum Task {
    Write(String),
    /// Says when all before it is written.
    Flush(SyncSender<()>),
}

impl Outlet {
    fn to(file: OwnedFd) -> Result<Self, Failure> {
        let (tasks, todo) = sync_channel(BACKLOG);
        runtime::thread("lockkeeper-out", move || work(&file, &todo))?;
        Ok(Self { tasks })
    }

    /// In one write, so that lines of several processes do not mix.
    pub(crate) fn write(&self, text: String) {
        drop(self.tasks.try_send(Task::Write(text)));
    }

    /// Waits until all is written, but not for longer than this.
    pub(crate) fn flush(&self, limit: Duration) {
        let (done, wait) = sync_channel(1);
        if self.tasks.try_send(Task::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(limit);
        }
    }
}

/// A reader that has gone away is no reason to fail, still less to leave a lock behind.
fn work(file: &OwnedFd, todo: &Receiver<Task>) {
    // The command may have the terminal, which is no reason to stop.
    stop_at_output(false);
    while let Ok(task) = todo.recv() {
        match task {
            Task::Write(text) => drop(write_all(file, text.as_bytes())),
            Task::Flush(done) => drop(done.send(())),
        }
    }
}

/// Others may have made the file one that does not block.
fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// All that a run writes to.
#[derive(Clone, Debug)]
pub(crate) struct Outlets {
    pub(super) stderr: Outlet,
    /// Events go to stderr, too.
    pub(super) json: bool,
    pub(super) events: Option<Outlet>,
}

impl Outlets {
    /// Stderr alone, with events if `json`.
    pub(crate) fn stderr(json: bool) -> Result<Self, Failure> {
        let file = io::stderr().as_fd().try_clone_to_owned().map_err(|error| runtime::refused("stderr", &error))?;
        Ok(Self { stderr: Outlet::to(file)?, json, events: None })
    }

    /// And this one for events.
    pub(crate) fn and(self, events: OwnedFd) -> Result<Self, Failure> {
        Ok(Self { events: Some(Outlet::to(events)?), ..self })
    }

    /// Waits until all is written, but not for longer than this.
    pub(crate) fn flush(&self, limit: Duration) {
        self.stderr.flush(limit);
        if let Some(events) = &self.events {
            events.flush(limit);
        }
    }
}
