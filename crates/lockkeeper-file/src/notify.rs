//! Notification files: 64 small files. A writer that changes a line writes a byte into the files of
//! its waiters, and inotify wakes the waiters of every process.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files::Rights;
use crate::LockName;
use crate::store::SessionId;

const NOTIFY_FILES: u8 = 64;
/// As many notification files stay open.
const OPEN_FILES: usize = 8;

/// One of the notification files, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NotifyFile(u8);

impl NotifyFile {
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
        Self(Sha256::digest(bytes)[0] % NOTIFY_FILES)
    }

    pub(super) fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{:02x}", self.0))
    }
}

/// The folder with the notification files, and the rights that new files get there.
#[derive(Clone, Debug)]
pub(super) struct NotifyFolder {
    pub(super) path: PathBuf,
    pub(super) rights: Rights,
}

impl NotifyFolder {
    /// Makes a file if it is missing, so that it can be watched.
    pub(super) fn create(&self, file: NotifyFile) -> io::Result<PathBuf> {
        let path = file.path(&self.path);
        self.rights.open(&path)?;
        Ok(path)
    }

    fn open(&self, file: NotifyFile) -> io::Result<File> {
        self.rights.open(&file.path(&self.path))
    }
}

/// The notification files to write to once a transaction is committed.
#[derive(Debug, Default)]
pub(super) struct Notifications(HashSet<NotifyFile>);

impl Notifications {
    #[cfg(test)]
    pub(super) fn has_session(&self, session: &SessionId) -> bool {
        self.0.contains(&NotifyFile::of_session(session))
    }

    pub(super) fn session(&mut self, session: &SessionId) {
        self.0.insert(NotifyFile::of_session(session));
    }

    pub(super) fn name(&mut self, name: &LockName) {
        self.0.insert(NotifyFile::of_name(name));
    }
}

/// Writes to the notification files of a folder, and keeps the last used files open.
#[derive(Debug)]
pub(super) struct Notifier {
    folder: NotifyFolder,
    open_files: HashMap<NotifyFile, File>,
}

impl Notifier {
    pub(super) fn new(folder: NotifyFolder) -> Self {
        Self { folder, open_files: HashMap::new() }
    }

    /// A failed write costs a waiter only time, so it is no error.
    pub(super) fn notify(&mut self, notifications: &Notifications) {
        for file in &notifications.0 {
            let _ = self.open(*file).and_then(|opened| opened.write_at(b"!", 0));
        }
    }

    /// Opens a notification file. A deleted file is made again, since a later waiter would not
    /// watch the deleted one.
    fn open(&mut self, file: NotifyFile) -> io::Result<&File> {
        let kept = self
            .open_files
            .remove(&file)
            .filter(|opened| opened.metadata().is_ok_and(|meta| meta.nlink() > 0));
        let opened = match kept {
            Some(opened) => opened,
            None => self.folder.open(file)?,
        };
        if self.open_files.len() >= OPEN_FILES {
            self.open_files.clear();
        }
        Ok(self.open_files.entry(file).or_insert(opened))
    }
}
