//! The database: recognised, filled with its tables, and set up.

use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::boot::{self, Boot};
use super::fault;
use super::liveness::Clients;
use super::opened::OpenConnection;
use crate::store::StoreId;
use crate::{Error, ErrorKind, Result, time};

/// Distinguishes databases of lockkeeper from others: "lkep".
const APPLICATION_ID: i32 = 0x6c6b_6570;
/// The version of the tables in `schema.sql`.
const SCHEMA_VERSION: i32 = 11;
/// How long a program other than lockkeeper may keep the file locked.
const BUSY: Duration = Duration::from_secs(5);
const STATEMENTS: usize = 64;

/// A connection to a database.
#[derive(Debug)]
pub(super) struct Database {
    db: Connection,
    /// After the connection: it is closed then.
    _opened: OpenConnection,
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

impl DerefMut for Database {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.db
    }
}

/// A connection to a database that may be of another program.
///
/// The last connection would copy the log into the database when it is closed, and delete the log.
/// That must not happen to another program's database, nor to ours outside the gate: there only a
/// commit copies the log, when the log has 1000 pages.
pub(super) fn connect(path: &Path) -> Result<Database> {
    let opened = OpenConnection::note(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let set_up = || -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        // Otherwise SQLite plans a statement again for each new value of its parameters, which took
        // a third of the time.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(db)
    };
    let db = set_up().map_err(|e| fault::undone(path, e))?;
    Ok(Database { db, _opened: opened })
}

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The database is empty.
    Empty,
    /// The database has lines, in the form of this version.
    Ours,
}

/// Refuses a database that is not ours to use.
pub(super) fn recognise(db: &Connection, path: &Path) -> Result<Kind> {
    let number = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|e| fault::undone(path, e))
    };
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let version = number("PRAGMA user_version")?;
    match number("PRAGMA application_id")? {
        // Another process may have made it since the first look; now it is ours, and has its
        // version.
        APPLICATION_ID => known(path, number("PRAGMA user_version")?),
        0 if tables == 0 && version == 0 => Ok(Kind::Empty),
        _ => Err(foreign(path)),
    }
}

fn known(path: &Path, version: i32) -> Result<Kind> {
    match version.cmp(&SCHEMA_VERSION) {
        Ordering::Less => Err(older(path, version)),
        Ordering::Equal => Ok(Kind::Ours),
        Ordering::Greater => Err(newer(path, version)),
    }
}

/// Makes the tables of a new database, and sets the connection up for writing. To be called inside
/// the gate.
pub(super) fn prepare(
    db: &mut Connection,
    path: &Path,
    boot: &Boot,
    clients: &Clients,
) -> Result<()> {
    if recognise(db, path)? == Kind::Empty {
        make(db, boot).map_err(|e| fault::undone(path, e))?;
    }
    go_durable(db, path)?;
    boot::greet(db, path, boot, clients)
}

fn make(db: &mut Connection, boot: &Boot) -> rusqlite::Result<()> {
    let making = Transaction::new(db, TransactionBehavior::Immediate)?;
    making.execute_batch(include_str!("schema.sql"))?;
    // The tokens of a new file are above the tokens of a lost one.
    let floor = i64::try_from(time::wall_micros()).unwrap_or(1);
    let sql = "INSERT INTO lk_meta (one, id, floor, boot_id, began_us, up_us)
               VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    let id = StoreId::random();
    making.execute(sql, params![id.as_bytes(), floor, boot.id, boot.began, boot.now])?;
    making.pragma_update(None, "application_id", APPLICATION_ID)?;
    making.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    making.commit()
}

/// A commit reaches the disk before it is answered: an issued token is never issued again. The
/// writer changes this for a transaction that issues none.
fn go_durable(db: &Connection, path: &Path) -> Result<()> {
    let mode = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
    let mode = mode.map_err(|e| fault::undone(path, e))?;
    if mode != "wal" {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "file:{}: SQLite cannot keep a write-ahead log there (it offers {mode})",
                path.display()
            ),
        )
        .with_remedy("a path on a local disk"));
    }
    db.pragma_update(None, "synchronous", "FULL").map_err(|e| fault::undone(path, e))
}

fn newer(path: &Path, version: i32) -> Error {
    let problem = format!(
        "file:{} was made by a newer lockkeeper (its tables have version {version}, this one knows {SCHEMA_VERSION})",
        path.display()
    );
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("the newer lockkeeper here too, or another path")
}

/// No version before this one was released.
fn older(path: &Path, version: i32) -> Error {
    let problem = format!(
        "file:{} was made by an older lockkeeper (its tables have version {version}, this one needs {SCHEMA_VERSION})",
        path.display()
    );
    let remedy = "stop all programs that use it, move it away with its -wal and -shm files, and start them again";
    Error::new(ErrorKind::Unsupported, problem).with_remedy(remedy)
}

fn foreign(path: &Path) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("file:{} is the database of another program", path.display()),
    )
    .with_remedy("another path")
}
