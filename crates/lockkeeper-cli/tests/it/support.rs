//! The file store under the tests of the program.

use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lockkeeper::FileStore;
use lockkeeper::store::{Evict, Evicted, Store as _, Target};

#[path = "client.rs"]
mod client;

pub(crate) use self::client::*;

/// How long a killed holder may keep its lock: far less than the ttl of 30 s, after which a store
/// frees the lock if it does not see the end of a process.
pub(crate) const FREE_AFTER_DEATH: Duration = Duration::from_secs(3);

/// Whether a holder learns at once that its lock was broken, and not only with its next renewal.
pub(crate) const REPORTS_LOSSES: bool = false;

/// The program.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lockkeeper"))
}

/// A file store in a directory of its own.
pub(crate) struct Store(Client);

impl Deref for Store {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file:{}", dir.path().join("locks.db").display());
        Self(Client::new(&url, dir))
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("locks.db")
    }

    /// The program as another user than root, with an almost empty environment and without a store.
    /// Other users may look into the directory of this store from now on.
    pub(crate) fn as_user(&self, args: &[&str]) -> Command {
        let copy = self.path("lockkeeper");
        if !copy.exists() {
            // Another process copies the file: a test that starts a process at the same time would
            // pass on our descriptor of the copy, and a file that is open for writing cannot be
            // executed.
            let copied = Command::new("cp").arg(binary()).arg(&copy).status().unwrap();
            assert!(copied.success());
            std::fs::set_permissions(self.path(""), std::fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        let mut command = Command::new(copy);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LOCKKEEPER_CONFIG", "/dev/null")
            .current_dir("/")
            .stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        command
    }

    /// Breaks the lock of the holder with this token.
    pub(crate) fn break_lock(&self, name: &str, token: u64, how: Evict) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let evicted = runtime.block_on(async {
            let store = FileStore::new(self.database()).open().await.unwrap();
            let admin = store.admin().unwrap();
            let (name, target) = (name.parse().unwrap(), Target::Token(token));
            admin.evict(&name, &target, how, "ops", "a test").await.unwrap()
        });
        assert_eq!(evicted, Evicted::Done);
    }

    /// Keeps the store from answering until the result is dropped: every writer has to pass this
    /// gate.
    pub(crate) fn outage(&self) -> File {
        let gate = File::options().write(true).open(self.path("locks.db.gate")).unwrap();
        gate.lock().unwrap();
        gate
    }
}
