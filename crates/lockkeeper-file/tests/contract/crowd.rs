//! Data of others around the locks of a file store: in the same database, and beside it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{FileStore, LockName};
use lockkeeper_testing::{Crash, Harness, Time, Ttls};
use rusqlite::{Connection, params};
use tempfile::TempDir;

/// An application's own tables, and objects of SQLite other than tables.
const APPLICATION: &str = "
    CREATE TABLE IF NOT EXISTS stock (name TEXT PRIMARY KEY, qty INTEGER);
    CREATE INDEX IF NOT EXISTS stock_qty ON stock (qty);
    CREATE TABLE IF NOT EXISTS lk_claim_old (name BLOB, ord INTEGER, id BLOB);
    CREATE TABLE IF NOT EXISTS lk_lease (name TEXT PRIMARY KEY, holder TEXT);
    CREATE TABLE IF NOT EXISTS lk_register (
        key TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL, writers BLOB NOT NULL) STRICT;
    CREATE VIEW IF NOT EXISTS locked AS SELECT name FROM lk_claim;";

/// A process has died, and no client has cleaned up yet: its session was cut short, and its claim
/// is in a line. Two names may have a neighbour in common.
const DEAD: &str = "INSERT OR IGNORE INTO lk_session VALUES (?1, 'nobody', 0, 1, 1, 0, 1, 1, 1, 0)";
const CLAIM_OF_THE_DEAD: &str = "
    INSERT OR IGNORE INTO lk_claim (name, ord, id, session, weight, capacity, state, delay_us, since_us, owner, epoch)
        VALUES (?1, ?2, randomblob(16), ?3, 4294967295, 4294967295, 2, 0, 1, 'nobody', 9)";

/// The last token of the neighbouring locks.
const FENCE: i64 = 1 << 40;

/// The file store with data of others in its database.
pub(crate) struct FileAmongOthers {
    folder: TempDir,
    others: Mutex<Option<Connection>>,
}

impl FileAmongOthers {
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("locks.db")
    }

    fn come(&self, name: &LockName, round: usize) -> rusqlite::Result<()> {
        let round = i64::try_from(round).unwrap();
        let mut others = self.others.lock().unwrap();
        let db = match &mut *others {
            Some(db) => db,
            none => none.insert(settle(&self.path())?),
        };
        let step = db.transaction()?;
        step.execute(
            "INSERT OR REPLACE INTO stock VALUES (?1, ?2)",
            params![name.as_str(), round],
        )?;
        step.execute(
            "INSERT INTO lk_gone (id, until_us) VALUES (randomblob(16), ?1)",
            [i64::MAX - 1],
        )?;
        step.execute("INSERT INTO lk_gone (id, until_us) VALUES (randomblob(16), 1)", [])?;
        for near in longer(name.as_str()).chain(garbage(name.as_str())) {
            step.execute(
                "INSERT INTO lk_lock VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET fence = max(fence, ?2), revision = revision + 1",
                params![near, FENCE, round],
            )?;
        }
        for (nth, near) in longer(name.as_str()).enumerate().filter(|_| round == 0) {
            let session = format!("{name} {nth}");
            step.execute(DEAD, [&session])?;
            step.execute(CLAIM_OF_THE_DEAD, params![near, FENCE + 1, session])?;
        }
        step.commit()
    }
}

/// Names that begin with this name, and that no case uses.
fn longer(name: &str) -> impl Iterator<Item = Vec<u8>> {
    ["~", "/~", "%~", "\u{10ffff}"].into_iter().map(move |more| [name, more].concat().into_bytes())
}

/// Bytes that are no name.
fn garbage(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let name = name.as_bytes();
    let shorter = &name[..name.len() - 1];
    [[name, b"\xff"].concat(), [name, b"\0"].concat(), [shorter, b"\xc3"].concat(), Vec::new()]
        .into_iter()
}

/// Creates the data of others that does not depend on a name.
fn settle(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.pragma_update(None, "synchronous", "OFF")?;
    db.execute_batch(APPLICATION)?;
    let beside = |suffix: &str| format!("{}{suffix}", path.display());
    for suffix in [".bak", "~", ".live/garbage", ".notify/garbage", ".gate2"] {
        fs::write(beside(suffix), "\0garbage").unwrap();
    }
    for folder in [".d", ".live/lost+found", ".notify/lost+found"] {
        fs::create_dir_all(Path::new(&beside(folder)).join("deep")).unwrap();
    }
    symlink("nowhere", beside(".live/dangling")).unwrap();
    fs::write(Path::new(&beside(".live")).join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    Ok(db)
}

impl Harness for FileAmongOthers {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Frees;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), others: Mutex::default() }
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(FileStore::new(self.path()).open().await.unwrap())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        self.come(name, round).unwrap();
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn short(&self) -> Ttls {
        // A busy machine may pause a test or the disk for a second.
        Ttls { ttl: Duration::from_secs(2), wait_ttl: Duration::from_secs(1), ..Ttls::quick() }
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}
