//! The file with a handle: one line, a secret, there as a whole or not at all.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lockkeeper::Handle;
use tempfile::{NamedTempFile, TempPath};

use crate::exit::Failure;
use crate::output::{Verbosity, complain};
use crate::remedy::quoted;
use crate::small_file;

/// The place of a future handle: a file beside it, which no other user can read. The file
/// disappears unless it becomes the handle file.
#[derive(Debug)]
pub(crate) struct HandleFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl HandleFile {
    /// Checks whether the handle can be written, before the wait for a lock.
    pub(crate) fn prepare(path: &Path) -> Result<Self, Failure> {
        match fs::symlink_metadata(path) {
            Ok(_) => return Err(is_taken(path)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unwritable(path, &error));
            }
            // A path with a slash at the end names a folder.
            Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => {
                return Err(unwritable(path, &io::ErrorKind::IsADirectory.into()));
            }
            Err(_) => {}
        }
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = NamedTempFile::with_prefix_in(".lockkeeper-", folder);
        let temporary = temporary.map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), temporary })
    }

    /// Turns it into the handle file in one step, and never replaces another file.
    pub(crate) fn fill(mut self, handle: &Handle) -> Result<(), Failure> {
        let line = format!("{}\n", handle.expose());
        let file = self.temporary.as_file_mut();
        file.write_all(line.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| unwritable(&self.path, &error))?;
        let temporary: TempPath = self.temporary.into_temp_path();
        temporary.persist_noclobber(&self.path).map_err(|refused| match refused.error.kind() {
            io::ErrorKind::AlreadyExists => is_taken(&self.path),
            _ => unwritable(&self.path, &refused.error),
        })
    }
}

/// The handle in a file.
pub(crate) fn read(path: &Path, verbosity: Verbosity) -> Result<Handle, Failure> {
    let unreadable =
        |error| failed(path, "cannot be read", &error, "the file that `lockkeeper acquire` wrote");
    let file = File::open(path).map_err(unreadable)?;
    let is_open = file.metadata().is_ok_and(|meta| meta.is_file() && meta.mode() & 0o077 != 0);
    let text = small_file::read(file).map_err(unreadable)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let handle =
        line.parse().map_err(|error| Failure::config(format!("{}: {error}", shown(path))))?;
    // A refusal of the file would keep a lock that the user wants to release.
    if is_open && verbosity >= Verbosity::Warnings {
        complain(&format!(
            "{} is open to others, who could release the lock. Try: chmod 600",
            shown(path)
        ));
    }
    Ok(handle)
}

/// Removes the file of a lock that is gone. `false` if another process has removed it.
pub(crate) fn remove(path: &Path) -> Result<bool, Failure> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(path, "cannot be deleted", &error, "rm")),
    }
}

/// What is in the place of a future handle, and what to do with it.
fn is_taken(path: &Path) -> Failure {
    let file = quoted(&path.to_string_lossy()).into_owned();
    let (what, remedy) = match content(path).as_deref().map(|text| (text, text.trim().parse())) {
        Some((_, Ok(handle))) => {
            let handle: Handle = handle;
            (
                format!(", with the handle of the lock {:?}", handle.full_name().as_str()),
                format!(
                    "lockkeeper release --handle-file {file}, which ends that lock and deletes the file; or another file"
                ),
            )
        }
        Some(("", _)) => {
            (", and is empty".to_owned(), format!("rm {file}: acquire itself makes the file"))
        }
        _ => (", and is no handle of lockkeeper".to_owned(), "another file".to_owned()),
    };
    Failure::config(format!("{} exists already{what}. Try: {remedy}", shown(path)))
}

/// The text of a regular file. Only such a file ends.
fn content(path: &Path) -> Option<String> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    small_file::read(File::open(path).ok().filter(|_| is_file)?).ok()
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    failed(path, "cannot be written", error, "a file in a folder in which you may write")
}

fn failed(path: &Path, what: &str, error: &io::Error, remedy: &str) -> Failure {
    Failure::config(format!("{} {what}: {error}. Try: {remedy}", shown(path)))
}

fn shown(path: &Path) -> impl fmt::Display {
    format!("the handle file {path:?}")
}
