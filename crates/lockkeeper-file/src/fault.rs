//! Errors of SQLite and the file system, in lockkeeper's words.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::{Error, ErrorKind};

/// Why an operation ended early.
#[derive(Debug)]
pub(super) enum Fault {
    /// An answer: the changes of the operation so far stay.
    Refused(Error),
    /// SQLite failed: the changes of the operation are undone.
    Sqlite(rusqlite::Error),
}

/// The result of an operation on the layout.
pub(super) type Outcome<T> = std::result::Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// An error of a request that SQLite has undone.
pub(super) fn undone(file: &Path, error: rusqlite::Error) -> Error {
    let (kind, what, remedy) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::Unavailable, "has no room on its disk", "free some space on that disk")
        }
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => (
            ErrorKind::Unavailable,
            "is locked by a program other than lockkeeper",
            "end that program's transaction",
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Unavailable,
            "is damaged",
            "stop all programs that use it, move it away with its -wal and -shm files, and start them again",
        ),
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::Invalid, "is not a SQLite database", "another path, or move that file away")
        }
        Some(ErrorCode::ReadOnly) => {
            (ErrorKind::Denied, "cannot be written", "write permission for the file and its folder")
        }
        Some(ErrorCode::PermissionDenied) => {
            (ErrorKind::Denied, "may not be used", "chmod u+rw on it")
        }
        Some(ErrorCode::CannotOpen) if is_forbidden(file) => (
            ErrorKind::Denied,
            "may not be used by this user",
            "chmod u+rw on it, or a path that you own",
        ),
        Some(ErrorCode::CannotOpen) => (
            ErrorKind::Unavailable,
            "cannot be opened",
            "look whether the file and its folder are there and writable",
        ),
        Some(ErrorCode::SystemIoFailure) => {
            // A new file also gets this error as long as a program uses the log of the deleted
            // file.
            let remedy = "look for a full disk, or a limit of file size (ulimit -f); if the file was deleted, end the \
                          programs that used it; else look into the kernel's log";
            (ErrorKind::Unavailable, "cannot be read or written", remedy)
        }
        _ => {
            (ErrorKind::Internal, "gave an unexpected answer", "report this with the whole message")
        }
    };
    Error::new(kind, format!("file:{} {what} ({error})", file.display()))
        .with_remedy(remedy)
        .with_source(error)
}

/// SQLite does not report why it cannot open a file.
fn is_forbidden(file: &Path) -> bool {
    let allowed = rustix::fs::access(file, Access::READ_OK | Access::WRITE_OK);
    matches!(allowed, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM))
}

/// An error of a commit. After a failed write the disk may hold the end of the transaction all the
/// same.
pub(super) fn uncommitted(file: &Path, error: rusqlite::Error) -> Error {
    let unknown = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
    let error = undone(file, error);
    if unknown { error.with_unknown_effect() } else { error }
}

/// A thread of the store has ended before it answered.
pub(super) fn ended() -> Error {
    Error::new(ErrorKind::Internal, "a thread of the file store has ended")
        .with_remedy("report this")
}

/// The reader's thread does not answer. It does not wait for other processes, so the disk does not
/// answer the thread, or the thread has very much to read.
pub(super) fn unread(file: &Path) -> Error {
    let problem = format!("file:{}: a look at the file has taken seconds", file.display());
    Error::new(ErrorKind::Unavailable, problem)
        .with_remedy("look whether its disk answers (lockkeeper doctor), and into the kernel's log")
}

fn is_short_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// An error of the file system, about `path`.
pub(super) fn io(path: &Path, doing: &str, error: io::Error) -> Error {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let (kind, remedy) = match error.kind() {
        _ if is_short_of_files(&error) => {
            (ErrorKind::Unavailable, "a higher limit of open files (ulimit -n)")
        }
        NotFound => (ErrorKind::Invalid, "mkdir -p of the folder, or another path"),
        PermissionDenied => {
            (ErrorKind::Denied, "chmod u+rwx on the folder, or a path that you own")
        }
        ReadOnlyFilesystem => (ErrorKind::Denied, "a path on a file system that can be written"),
        StorageFull => (ErrorKind::Unavailable, "free some space on that disk"),
        _ => {
            (ErrorKind::Unavailable, "look whether the file and its folder are there and writable")
        }
    };
    Error::new(kind, format!("file:{}: cannot {doing}: {error}", path.display()))
        .with_remedy(remedy)
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::Effect;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn only_a_commit_that_the_disk_failed_may_have_happened() {
        let path = Path::new("/locks.db");
        use rusqlite::ffi::{SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE};
        for code in [SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE] {
            assert_eq!(uncommitted(path, sqlite(code)).effect(), Effect::Unknown);
            assert_eq!(undone(path, sqlite(code)).effect(), Effect::None);
        }
        for code in [SQLITE_FULL, SQLITE_BUSY] {
            assert_eq!(uncommitted(path, sqlite(code)).effect(), Effect::None);
        }
    }

    #[test]
    fn what_passes_by_itself_is_unavailable() {
        use rusqlite::ffi::{
            SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR, SQLITE_LOCKED, SQLITE_PROTOCOL,
        };
        for code in [SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR, SQLITE_LOCKED, SQLITE_PROTOCOL] {
            let error = undone(Path::new("/locks.db"), sqlite(code));
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.remedy().is_some(), "{error}");
        }
    }

    /// SQLite says so of a full disk, and of a file that may not grow.
    #[test]
    fn what_cannot_be_written_may_have_no_room_or_be_deleted() {
        let error = undone(Path::new("/locks.db"), sqlite(rusqlite::ffi::SQLITE_IOERR_WRITE));
        for cause in ["full disk", "ulimit -f", "the file was deleted"] {
            assert!(error.remedy().unwrap().contains(cause), "{error}");
        }
    }

    #[test]
    fn too_many_open_files_are_called_that() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let error = io(Path::new("/locks.db.gate"), "create it", errno.into());
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.remedy().unwrap().contains("ulimit -n"), "{error}");
        }
    }
}
