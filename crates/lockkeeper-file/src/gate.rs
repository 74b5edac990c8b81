//! The gate: one process at a time writes.
//!
//! SQLite's own write lock would do for safety, but its waiters poll, and of four busy processes two starved for
//! seconds. An flock wakes them in turn. Every new open of the file is a contender of its own, so it also holds
//! between two stores of one process.
//!
//! A child that is forked has what its parent had open, and an flock lasts until the last of them closes it. So each
//! turn opens the file for itself: only a child that is forked within the very turn in which its parent is killed
//! keeps the gate shut. A lock of the process (fcntl), which no child has, would spare that too; but it ends as soon as
//! anybody in the process closes the file, and does not keep two stores of one process apart.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::database::private;

/// The door of a database.
#[derive(Debug)]
pub(super) struct Gate {
    path: PathBuf,
    /// For turns in which no file can be opened, as when there are too many.
    kept: File,
}

/// Being inside. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    kept: &'a File,
    opened: Option<File>,
}

impl Gate {
    /// Makes the file if it is not there.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let kept = private().write(true).create(true).truncate(false).open(&path)?;
        Ok(Self { path, kept })
    }

    /// Waits for as long as it takes: another process that is stopped inside keeps everybody out until it goes on.
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
        // To close it is not enough where a child has it too. It can only fail for a descriptor that is none, and then
        // nothing is locked.
        let _ = self.file().unlock();
    }
}
