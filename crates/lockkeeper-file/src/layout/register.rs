//! Values with versions, in a table of their own.

use rusqlite::{Connection, OptionalExtension, params};

use super::Txn;
use crate::fault::Outcome;
use crate::registers::{Swap, Version, Versioned, Write, WriterId};

/// The content of a key.
pub(crate) fn load(db: &Connection, key: &str) -> rusqlite::Result<Option<Versioned>> {
    // SQLite's own check for a table would not notice a table that another process has made since.
    if !db.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'lk_register'")?.exists([])? {
        return Ok(None);
    }
    let mut query =
        db.prepare_cached("SELECT version, value, writers FROM lk_register WHERE key = ?1")?;
    let found = query.query_row([key], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?))
    });
    Ok(found.optional()?.map(|(version, value, writers)| {
        let (writers, _) = writers.as_chunks();
        let writers = writers.iter().copied().map(WriterId::from_bytes).collect();
        Versioned::new(Version::new(version.unsigned_abs()), value, writers)
    }))
}

impl Txn<'_> {
    /// Replaces the version that the write expects, if that version is there.
    pub(crate) fn swap(&mut self, key: &str, write: &Write) -> Outcome<Swap> {
        self.check_on_disk("a version")?;
        let current = load(self.db, key)?;
        if Version::of(current.as_ref()) != write.expected() {
            return Ok(Swap::Conflict(current));
        }
        self.run(include_str!("../register.sql"))?;
        let next = Versioned::after(current.as_ref(), write);
        let writers: Vec<u8> = next.writers.iter().flat_map(|writer| *writer.as_bytes()).collect();
        self.change(
            "INSERT INTO lk_register (key, version, value, writers) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key)
             DO UPDATE SET version = excluded.version, value = excluded.value, writers = excluded.writers",
            params![key, next.version.get().cast_signed(), next.value, writers],
        )?;
        Ok(Swap::Done)
    }
}
