//! The file with a handle: one line, a secret, there as a whole or not at all.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lockkeeper::Handle;
use tempfile::{NamedTempFile, TempPath};

use crate::exit::Failure;

/// The place for a handle that is yet to be acquired: a file beside it, which nobody else can read and which is gone
/// again unless it becomes the handle file.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl Place {
    /// Finds out before anybody waits for a lock whether there is room for its handle.
    pub(crate) fn prepare(path: &Path) -> Result<Self, Failure> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(is_taken(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = NamedTempFile::with_prefix_in(".lockkeeper-", folder);
        let temporary = temporary.map_err(|error| failed(path, "cannot be written", &error))?;
        Ok(Self { path: path.to_owned(), temporary })
    }

    /// Makes it the handle file, in one step, and never in the place of another file.
    pub(crate) fn fill(mut self, handle: &Handle) -> Result<(), Failure> {
        let unwritten = |error: &io::Error| failed(&self.path, "cannot be written", error);
        let line = format!("{}\n", handle.expose());
        let file = self.temporary.as_file_mut();
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| unwritten(&error))?;
        let temporary: TempPath = self.temporary.into_temp_path();
        temporary.persist_noclobber(&self.path).map_err(|refused| match refused.error.kind() {
            io::ErrorKind::AlreadyExists => is_taken(&self.path),
            _ => unwritten(&refused.error),
        })
    }
}

/// The handle in a file.
pub(crate) fn read(path: &Path) -> Result<Handle, Failure> {
    let text = fs::read_to_string(path).map_err(|error| failed(path, "cannot be read", &error))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    line.parse().map_err(|error| Failure::config(format!("{}: {error}", shown(path))))
}

/// Takes away the file of a lock that is gone.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| failed(path, "cannot be deleted", &error))
}

fn is_taken(path: &Path) -> Failure {
    let remedy = "Try: another file, or `lockkeeper release --handle-file` if it is the handle of an old lock";
    Failure::config(format!("{} exists already. {remedy}", shown(path)))
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Failure {
    Failure::config(format!("{} {what}: {error}", shown(path)))
}

fn shown(path: &Path) -> impl fmt::Display {
    format!("the handle file {path:?}")
}
