//! Bells: 64 small files. Whoever changes a line writes a byte into the files of those who wait for it, and inotify
//! wakes them, in whatever process they are.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::database::private;
use crate::LockName;
use crate::store::SessionId;

const BELLS: u8 = 64;
/// As many files of bells stay open.
const ROPES: usize = 8;

/// One of the bells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bell(u8);

impl Bell {
    /// The one that the waiting claims of a session listen to.
    pub(super) fn of_session(session: &SessionId) -> Self {
        Self::of(session.as_str().as_bytes())
    }

    /// The one that the observers of a name listen to.
    pub(super) fn of_name(name: &LockName) -> Self {
        Self::of(name.as_str().as_bytes())
    }

    /// The same in every process and version.
    fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes)[0] % BELLS)
    }

    pub(super) fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{:02x}", self.0))
    }

    /// Makes the file if it is not there, so that it can be watched.
    pub(super) fn hang(self, folder: &Path) -> io::Result<PathBuf> {
        let path = self.path(folder);
        private().append(true).create(true).open(&path)?;
        Ok(path)
    }
}

/// The bells to ring once a transaction is committed.
#[derive(Debug, Default)]
pub(super) struct Ringing(HashSet<Bell>);

impl Ringing {
    pub(super) fn session(&mut self, session: &SessionId) {
        self.0.insert(Bell::of_session(session));
    }

    pub(super) fn name(&mut self, name: &LockName) {
        self.0.insert(Bell::of_name(name));
    }
}

/// Where the bells hang, and the open files of those that were rung lately.
#[derive(Debug)]
pub(super) struct Belfry {
    folder: PathBuf,
    ropes: HashMap<Bell, File>,
}

impl Belfry {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, ropes: HashMap::new() }
    }

    /// A bell that cannot be rung costs a waiter time, so it is no error.
    pub(super) fn ring(&mut self, ringing: &Ringing) {
        for bell in &ringing.0 {
            let _ = self.rope(*bell).and_then(|file| file.write_at(b"!", 0));
        }
    }

    /// The file of a bell. One that somebody has deleted is heard by nobody who comes to wait later.
    fn rope(&mut self, bell: Bell) -> io::Result<&File> {
        let kept = self.ropes.remove(&bell).filter(|file| file.metadata().is_ok_and(|meta| meta.nlink() > 0));
        let file = match kept {
            Some(file) => file,
            None => private().write(true).create(true).truncate(false).open(bell.path(&self.folder))?,
        };
        if self.ropes.len() >= ROPES {
            self.ropes.clear();
        }
        Ok(self.ropes.entry(bell).or_insert(file))
    }
}
