//! The checks before the file is used; a failed check is refused with the remedy.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::{fault, filesystem};
use crate::{Error, ErrorKind, Result};

/// A check that a caller can waive, by its name in the URL (`unsafe=network-fs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// `network-fs`: the file is on a file system of this machine alone. On other file systems,
    /// file locks and shared memory do not reach the other machines, and each machine would grant
    /// the lock.
    NetworkFs,
    /// `permissions`: only the owner can write the file and its folder.
    Permissions,
}

impl Check {
    /// The name in a URL and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetworkFs => "network-fs",
            Self::Permissions => "permissions",
        }
    }

    /// The check of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::NetworkFs, Self::Permissions].into_iter().find(|check| check.name() == name)
    }
}

const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Refuses a folder where the store would not be safe.
pub(super) fn folder(folder: &Path, waived: &[Check]) -> Result<()> {
    if !waived.contains(&Check::NetworkFs) {
        let found = rustix::fs::statfs(folder)
            .map_err(|e| fault::io(folder, "look at its file system", e.into()))?;
        // The number is an unsigned 32-bit one, sign-extended on some architectures.
        filesystem::local(folder, found.f_type as u32)?;
    }
    let meta = fs::metadata(folder).map_err(|e| fault::io(folder, "look at the folder", e))?;
    // In a sticky folder (/tmp) a user cannot remove or replace the files of another user.
    let open = meta.mode() & WRITABLE_BY_OTHERS != 0 && meta.mode() & STICKY == 0;
    if open && !waived.contains(&Check::Permissions) {
        return Err(writable(folder));
    }
    Ok(())
}

/// Refuses a database that other processes could reach by a second name: the files of the store are
/// not beside that name.
pub(super) fn database(path: &Path) -> Result<()> {
    let meta = fs::metadata(path).map_err(|e| fault::io(path, "look at it", e))?;
    if !meta.is_file() {
        return Err(no_file(path));
    }
    if meta.nlink() > 1 {
        let problem = format!("file:{} has other names (hard links)", path.display());
        return Err(Error::new(ErrorKind::Unsupported, problem)
            .with_remedy("a file with one name, or a symbolic link to it"));
    }
    if is_mounted(path) {
        let problem = format!(
            "file:{} was mounted there by itself, away from the files beside it",
            path.display()
        );
        return Err(Error::new(ErrorKind::Unsupported, problem)
            .with_remedy("mount the folder that it is in"));
    }
    Ok(())
}

/// Returns whether a single file was mounted over this path (`docker run -v locks.db:/locks.db`).
/// The database then has two folders, with a log and a gate in each, and the processes of one
/// folder do not see the log and the gate of the other.
fn is_mounted(path: &Path) -> bool {
    // Kernels before 5.8 do not report this.
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Refuses files that other users have put, or could put, in the place of the store's own files. In
/// a folder that all users may write (/tmp), any user can make these files first, and with them
/// release the locks of others.
pub(super) fn owners(files: &[&Path], waived: &[Check]) -> Result<()> {
    if waived.contains(&Check::Permissions) {
        return Ok(());
    }
    for file in files {
        let look = |e| fault::io(file, "look at it", e);
        let found = match fs::symlink_metadata(file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(look)?,
        };
        // The owner of the folder can do everything in it anyway.
        let folder = fs::metadata(file.parent().unwrap_or(file)).map_err(look)?;
        if ![rustix::process::geteuid().as_raw(), folder.uid(), 0].contains(&found.uid()) {
            let problem = format!("file:{} belongs to another user", file.display());
            return Err(Error::new(ErrorKind::Denied, problem).with_remedy(
                "a path in a folder of your own, or ?unsafe=permissions at the end of the URL",
            ));
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 && !found.is_symlink() {
            // A device is open to all users, and has to stay so.
            return Err(if found.is_file() || found.is_dir() {
                writable(file)
            } else {
                no_file(file)
            });
        }
    }
    Ok(())
}

fn no_file(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, format!("file:{} is not a file", path.display()))
        .with_remedy("the path of a file, for example with /locks.db after it")
}

/// Refuses a process whose clock differs from the machine's (a time namespace): it would see the
/// leases of other processes end too early or too late.
pub(super) fn clock() -> Result<()> {
    // Kernels without time namespaces have no such file.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let boot = offsets.lines().find_map(|line| line.strip_prefix("boottime")).unwrap_or_default();
    if boot.split_whitespace().all(|offset| offset == "0") {
        return Ok(());
    }
    let problem = "this process has a clock of its own (a time namespace)";
    Err(Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("the machine's time namespace, or another store"))
}

fn writable(path: &Path) -> Error {
    let path = path.display();
    let problem = format!("file:{path}: others can write there, and could take any lock");
    let remedy = format!("chmod go-w {path}, or ?unsafe=permissions at the end of the URL");
    Error::new(ErrorKind::Denied, problem).with_remedy(remedy)
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_file_system_of_a_folder_is_what_is_looked_at() {
        let magic = rustix::fs::statfs("/proc").unwrap().f_type as u32;
        assert_eq!(magic, 0x9fa0, "the number in its low 32 bits");
    }
}
