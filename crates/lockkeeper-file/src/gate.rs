//! The gate: one process at a time writes.
//!
//! SQLite's own write lock would be safe, but its waiters poll, and of four busy processes two
//! starved for seconds. An flock wakes its waiters in turn. Every open of the file counts
//! separately, so the gate also works between two stores of one process.
//!
//! A forked child has its parent's descriptors, and an flock lasts until the last of them is
//! closed. So each turn opens the file for itself: the gate stays shut only if the child is forked
//! within the very turn in which its parent is killed. A lock of the process (fcntl), which no
//! child inherits, would prevent even that. But such a lock ends as soon as the process closes the
//! file anywhere, and does not separate two stores of one process.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::files::private;
use super::layout::times::Micros;
use crate::{Error, ErrorKind, Result, time};

/// The door of a database.
#[derive(Debug)]
pub(super) struct Gate {
    path: PathBuf,
    /// The index of the gate in what this process remembers of gates.
    slot: usize,
    /// For turns in which no file can be opened, as when there are too many.
    kept: File,
}

/// A request is refused at once if the writer has been waiting at the gate for so long.
const SHUT: Micros = 5_000_000;

/// How soon an opening outside of the queue tries again.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Gates share a slot if their inodes are equal modulo this. A map of gates would need a lock,
/// which a thread may hold at the moment of a fork.
const SLOTS: usize = 64;

/// Whether an opening of this process is in the queue of a gate.
static IN_QUEUE: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];

/// Since when the drop of a store waits for a turn at a gate that no store has passed since.
static DROPS: [Waiting; SLOTS] = [const { Waiting(AtomicI64::new(0)) }; SLOTS];

/// Since when somebody has been waiting at a gate; 0: nobody is waiting.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicI64);

impl Waiting {
    /// Returns since when somebody has been waiting.
    pub(super) fn begin(&self, now: Micros) -> Micros {
        let begun = self.0.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        begun.map_or_else(|since| since, |_| now)
    }

    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// # Errors
    /// `Unavailable` if the gate has been shut for a while.
    pub(super) fn check(&self, path: &Path, now: Micros) -> Result<()> {
        let since = self.0.load(Ordering::Relaxed);
        if since == 0 || now.saturating_sub(since) < SHUT { Ok(()) } else { Err(shut(path)) }
    }
}

/// The store does not answer.
pub(super) fn shut(path: &Path) -> Error {
    let problem = format!(
        "file:{}: no turn to write for seconds: a process is in the middle of a write, or many are in turn",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, problem).with_remedy(
        "lockkeeper doctor, which names a process that does not leave: if it is stopped, let it \
             go on; if there is none, fewer processes at a time, or a faster disk",
    )
}

/// A turn inside the gate. Dropping it lets the next process in.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    kept: &'a File,
    opened: Option<File>,
}

impl Gate {
    /// Makes the file if the file is missing.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let kept = private().write(true).create(true).truncate(false).open(&path)?;
        let slot = kept.metadata()?.ino() as usize % SLOTS;
        Ok(Self { path, slot, kept })
    }

    /// Waits for as long as it takes: another process that is stopped inside excludes all others
    /// until it goes on.
    pub(super) fn enter(&self) -> io::Result<Inside<'_>> {
        let inside = Inside { kept: &self.kept, opened: self.open() };
        lock(inside.file())?;
        self.drops().end();
        Ok(inside)
    }

    /// The wait of the drops of this process's stores.
    pub(super) fn drops(&self) -> &'static Waiting {
        &DROPS[self.slot]
    }

    /// As [`enter`](Self::enter), for an opening. `None` if the caller has gone.
    ///
    /// A thread in the queue of a gate cannot leave it. So one opening of this process is in the
    /// queue, and the others try in turn: openings that were given up at a shut gate leave one
    /// thread behind, however many they were. In a child that is forked while an opening is in the
    /// queue, all openings try in turn.
    pub(super) fn enter_while(
        &self,
        is_wanted: impl Fn() -> bool,
    ) -> io::Result<Option<Inside<'_>>> {
        let inside = Inside { kept: &self.kept, opened: self.open() };
        while is_wanted() {
            if !IN_QUEUE[self.slot].swap(true, Ordering::AcqRel) {
                let entered = lock(inside.file());
                IN_QUEUE[self.slot].store(false, Ordering::Release);
                return entered.map(|()| Some(inside));
            }
            match inside.file().try_lock() {
                Ok(()) => return Ok(Some(inside)),
                Err(TryLockError::WouldBlock) => time::pause(TRY_AGAIN),
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(None)
    }

    fn open(&self) -> Option<File> {
        private().write(true).open(&self.path).ok()
    }
}

/// Waits for its turn.
fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

impl Inside<'_> {
    fn file(&self) -> &File {
        self.opened.as_ref().unwrap_or(self.kept)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Closing the file is not enough if a child has it too. The call can fail only for an
        // invalid descriptor, and then there is no lock.
        let _ = self.file().unlock();
    }
}
