//! Which process has which database open, as the memory of this process knows.
//!
//! SQLite counts the locks of a process for each file in the memory of the process, and takes a
//! lock on the file only for the first of them. A forked child inherits the counts, and not the
//! locks. So SQLite would take no lock for a database that the child opens while its parent has the
//! database open, and other processes would take themselves for the only users of the file.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use lockkeeper_core::kit::Process;

use super::fault;
use super::files::{Inode, inode};
use crate::{Error, ErrorKind, Result, time};

pub(super) const AFTER_A_FORK: &str =
    "open it in the children alone, or run another program in the child (exec)";

/// How often, a millisecond apart, the list is tried. A thread has it locked for microseconds.
const LOOKS: u32 = 1000;

/// The open connections to databases, each with the process that has opened it.
static OPENED: Mutex<Vec<(Inode, Process)>> = Mutex::new(Vec::new());

/// The list, or `None` if it stays locked: by a thread of the parent at the moment of the fork,
/// which does not exist in this child.
fn opened() -> Option<MutexGuard<'static, Vec<(Inode, Process)>>> {
    for _ in 0..LOOKS {
        match OPENED.try_lock() {
            Ok(opened) => return Some(opened),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => time::pause(Duration::from_millis(1)),
        }
    }
    None
}

/// A connection of this process that is open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection(Inode, Process);

impl OpenConnection {
    /// Must be called before SQLite opens the file.
    ///
    /// # Errors
    /// `Forked` if the process that this one was forked from had the file open, or was just opening
    /// or closing a file.
    pub(super) fn note(path: &Path) -> Result<Self> {
        let file = inode(path).map_err(|e| fault::io(path, "look at it", e))?;
        let this = Process::this();
        let mut opened = opened().ok_or_else(|| forked(path))?;
        if opened.iter().any(|(known, process)| *known == file && !process.is(this)) {
            return Err(forked(path));
        }
        opened.push((file, this));
        Ok(Self(file, this))
    }

    #[cfg(test)]
    pub(super) fn count(path: &Path) -> usize {
        let file = inode(path).unwrap();
        opened().unwrap().iter().filter(|(known, _)| *known == file).count()
    }

    /// Keeps the list locked, as a thread does that opens or closes a file.
    #[cfg(test)]
    pub(super) fn lock_all() -> impl Drop {
        opened().unwrap()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let Some(mut opened) = opened() else { return };
        if let Some(at) = opened.iter().position(|entry| *entry == (self.0, self.1)) {
            opened.swap_remove(at);
        }
    }
}

fn forked(path: &Path) -> Error {
    let problem =
        format!("file:{} is open in the process that this one was forked from", path.display());
    Error::new(ErrorKind::Forked, problem).with_remedy(AFTER_A_FORK)
}
