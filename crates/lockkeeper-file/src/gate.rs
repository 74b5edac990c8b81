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

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::files::private;

/// The door of a database.
#[derive(Debug)]
pub(super) struct Gate {
    path: PathBuf,
    /// For turns in which no file can be opened, as when there are too many.
    kept: File,
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
        Ok(Self { path, kept })
    }

    /// Waits for as long as it takes: another process that is stopped inside excludes all others
    /// until it goes on.
    pub(super) fn enter(&self) -> io::Result<Inside<'_>> {
        let opened = private().write(true).open(&self.path).ok();
        let inside = Inside { kept: &self.kept, opened };
        loop {
            match inside.file().lock() {
                Ok(()) => return Ok(inside),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
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
