//! The gate: one process at a time writes.
//!
//! SQLite's own write lock would do for safety, but its waiters poll, and of four busy processes two starved for
//! seconds. An flock wakes them in turn. Every new open of the file is a contender of its own, so it also holds
//! between two stores of one process.

use std::fs::File;
use std::io;

/// The door of a database.
#[derive(Debug)]
pub(super) struct Gate(File);

/// Being inside. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Inside<'a>(&'a File);

impl Gate {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    /// Waits for as long as it takes: another process that is stopped inside keeps everybody out until it goes on.
    pub(super) fn enter(&self) -> io::Result<Inside<'_>> {
        loop {
            match self.0.lock() {
                Ok(()) => return Ok(Inside(&self.0)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // It can only fail for a descriptor that is none, and then nothing is locked.
        let _ = self.0.unlock();
    }
}
