//! Whether a client's process lives: the process holds an flock on a file of its own until the
//! kernel closes the file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::fault;
use super::files::Rights;
use crate::{Error, ErrorKind, Result, random, time};

/// A client: one opened store of one process. The id is the name of its liveness file.
pub(super) type ClientId = Arc<str>;

/// The kernel reports a close just before it releases the lock; how often, a millisecond apart, to
/// look again.
const CLOSING_LOOKS: u32 = 20;

/// The folder with the liveness files.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    folder: PathBuf,
}

impl Clients {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn path(&self, client: &str) -> PathBuf {
        self.folder.join(client)
    }

    /// A new client, alive until every duplicate of the file is closed. Must be called inside the
    /// gate, so that a sweep never meets a file that is not locked yet. Other users of the database
    /// look at the file too.
    pub(super) fn enroll(&self, rights: Rights) -> io::Result<(ClientId, File)> {
        let client: ClientId = HEXLOWER.encode(&random::bits128()).into();
        let file = rights.create(&self.path(&client))?;
        file.lock()?;
        Ok((client, file))
    }

    /// Returns whether the client's process is known to have ended.
    ///
    /// A missing file proves nothing: a file is deleted only after the death is recorded, so
    /// another process did that, and the client's claims end by time. The test takes a shared lock,
    /// so that two tests at once do not disturb each other.
    pub(super) fn is_dead(&self, client: &str) -> bool {
        File::open(self.path(client)).is_ok_and(|file| file.try_lock_shared().is_ok())
    }

    /// The same for a client whose file was just reported as closed.
    pub(super) fn has_just_died(&self, client: &str) -> bool {
        for _ in 0..CLOSING_LOOKS {
            if self.is_dead(client) {
                return true;
            }
            time::pause(Duration::from_millis(1));
        }
        false
    }

    /// Whether a process of any client lives. To be called inside the gate.
    ///
    /// # Errors
    /// Fails for a file that cannot be read, since its client may live.
    pub(super) fn anybody_lives(&self) -> Result<bool> {
        let unknown = |path: &Path, e| fault::io(path, "look for its clients", e);
        for entry in fs::read_dir(&self.folder).map_err(|e| unknown(&self.folder, e))? {
            let path = entry.map_err(|e| unknown(&self.folder, e))?.path();
            match File::open(&path) {
                Ok(file) if file.try_lock_shared().is_err() => return Ok(true),
                // Another client has removed it just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(unreadable(&path, e));
                }
                Err(e) => return Err(unknown(&path, e)),
                Ok(_) => {}
            }
        }
        Ok(false)
    }

    /// Some clients with ended processes. Must be called inside the gate.
    pub(super) fn dead(&self, limit: usize) -> Vec<ClientId> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|client| self.is_dead(client)).map(ClientId::from).take(limit).collect()
    }

    /// Deletes the file of a dead client, once its death is recorded.
    pub(super) fn remove_dead_client(&self, client: &str) {
        // The next sweep finds a file that could not be deleted.
        let _ = fs::remove_file(self.path(client));
    }
}

/// An earlier version made such a file for its user alone.
fn unreadable(path: &Path, error: io::Error) -> Error {
    let problem = format!(
        "file:{}: this user cannot see whether the client of this file runs: {error}",
        path.display()
    );
    Error::new(ErrorKind::Denied, problem)
        .with_remedy("open the store once as root, which removes the file of an ended client")
        .with_source(error)
}

/// Checks whether clients are dead, and remembers the answers for one transaction inside the gate.
#[derive(Debug)]
pub(super) struct DeadClientCheck<'a> {
    clients: &'a Clients,
    own: &'a str,
    dead: HashMap<ClientId, bool>,
}

impl<'a> DeadClientCheck<'a> {
    pub(super) fn new(clients: &'a Clients, own: &'a str) -> Self {
        Self { clients, own, dead: HashMap::new() }
    }

    pub(super) fn is_dead(&mut self, client: &ClientId) -> bool {
        if **client == *self.own {
            return false;
        }
        let clients = self.clients;
        *self.dead.entry(Arc::clone(client)).or_insert_with(|| clients.is_dead(client))
    }

    pub(super) fn clients(&self) -> &'a Clients {
        self.clients
    }
}
