//! The files of a store: how they are made and named, and how another file in their place is
//! noticed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::fault;
use crate::{Error, ErrorKind, Result, random, time};

/// The identity of the opened file, to notice another file at the same path.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    path: PathBuf,
    files: Vec<(PathBuf, Inode)>,
}

/// A file under any name: its device, and its number there.
pub(super) type Inode = (u64, u64);

pub(super) fn inode(path: &Path) -> io::Result<Inode> {
    let meta = fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

impl Identity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), files: vec![(path.to_owned(), inode(path)?)] })
    }

    /// Adds SQLite's log and the log's index, which stay the same as long as a process has the
    /// database open. A process that opens the database when one of them is gone begins another,
    /// and sees nothing of the old one's contents.
    pub(super) fn and_of_its_log(mut self) -> io::Result<Self> {
        for path in [suffixed(&self.path, "-wal"), suffixed(&self.path, "-shm")] {
            let found = inode(&path)?;
            self.files.push((path, found));
        }
        Ok(self)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// If the path was replaced, a process that opens it gets another file, and grants locks that
    /// this file holds. So the contents of this file do not count any more. The number of an inode
    /// is not reused while the file is open.
    pub(super) fn check(&self) -> Result<()> {
        for (path, was) in &self.files {
            match inode(path) {
                Ok(now) if now == *was => {}
                // The rights of the folder may come back.
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(fault::io(path, "look at it", e));
                }
                _ => return Err(Self::gone(path)),
            }
        }
        Ok(())
    }

    fn gone(lost: &Path) -> Error {
        let problem = format!("file:{}: it was deleted or replaced while in use", lost.display());
        // Not `Unavailable`: the state is permanent, so no client may wait for its end with the old
        // file open.
        Error::new(ErrorKind::Closed, problem)
            .with_remedy("restart this program, and keep other programs from removing the file")
    }
}

/// The path of a file beside the database.
pub(super) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A file that only its owner may use.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// The rights to a database. The small files beside it get the same rights, as SQLite gives them to
/// its log: each user of the database has to read and write them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    mode: u32,
    user: u32,
    group: u32,
}

impl Rights {
    pub(super) fn of(database: &Path) -> io::Result<Self> {
        let meta = fs::metadata(database)?;
        Ok(Self { mode: meta.mode() & 0o666, user: meta.uid(), group: meta.gid() })
    }

    /// A new file, open for writing.
    pub(super) fn create(self, path: &Path) -> io::Result<File> {
        let file = private().write(true).create_new(true).open(path)?;
        if rustix::process::geteuid().is_root() {
            // In a namespace of users, root may give no file away. Then the file is root's.
            let _ = fchown(&file, Some(self.user), Some(self.group));
        }
        // Not by `open`, which subtracts the umask.
        file.set_permissions(fs::Permissions::from_mode(self.mode))?;
        Ok(file)
    }

    /// A file for writing, which is made if it is missing. A link is refused: root would write to
    /// the file that the owner of the folder has chosen.
    pub(super) fn open(self, path: &Path) -> io::Result<File> {
        let mut existing = File::options();
        existing.write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        match existing.open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => match self.create(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => existing.open(path),
                made => made,
            },
            found => found,
        }
    }
}

/// Makes an empty file if the file is missing.
///
/// Only SQLite ever opens the database: closing any other descriptor of it would drop SQLite's
/// locks on it elsewhere in this process. So the file is made under another name.
pub(super) fn create(path: &Path) -> io::Result<()> {
    if path.try_exists()? {
        return Ok(());
    }
    // Inside the gate no living process makes one.
    sweep(path, ".new-", Duration::ZERO);
    let fresh = scratch(path, ".new-");
    private().write(true).create_new(true).open(&fresh)?;
    let placed = publish(&fresh, path);
    if placed.is_err() {
        fs::remove_file(&fresh)?;
    }
    placed.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })
}

/// The path of a new file of this kind beside the database, for a moment.
pub(super) fn scratch(path: &Path, kind: &str) -> PathBuf {
    suffixed(path, &format!("{kind}{}", HEXLOWER.encode(&random::bits128())))
}

/// Removes the files of this kind and age that killed processes have left beside the database. A
/// name that only begins like a [`scratch`] name may be a file of the user, or of another store.
pub(super) fn sweep(path: &Path, kind: &str, age: Duration) {
    let pattern = suffixed(path, kind);
    let (Some(folder), Some(prefix)) = (pattern.parent(), pattern.file_name()) else { return };
    let before = i64::try_from(time::wall_micros() / 1_000_000).unwrap_or(0)
        - i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_left = is_scratch(&entry.file_name(), prefix);
        if is_left && entry.metadata().is_ok_and(|meta| meta.is_file() && meta.mtime() <= before) {
            // A file that cannot be removed disturbs nobody.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a name is this prefix with 128 bits in hexadecimal digits.
fn is_scratch(name: &OsStr, prefix: &OsStr) -> bool {
    let bits = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    bits.is_some_and(|bits| bits.len() == 32 && HEXLOWER.decode(bits).is_ok())
}

/// Gives a file its name, if the name is free. In one step: with two names for a moment, a process
/// that opens the file would refuse it for its hard links.
fn publish(fresh: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, fresh, CWD, path, RenameFlags::NOREPLACE) {
        // Not all file systems can do that.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(fresh, path).and_then(|()| fs::remove_file(fresh))
        }
        moved => Ok(moved?),
    }
}
