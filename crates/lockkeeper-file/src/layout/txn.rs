//! A transaction of the writer: its requests, its failure, and the actions after it.

use std::path::Path;

use rusqlite::Connection;

use super::memory::Memory;
use super::times::Micros;
use crate::fault::{self, Fault, Outcome};
use crate::liveness::{ClientId, DeadClientCheck};
use crate::notify::Notifications;
use crate::{Error, ErrorKind, Result};

/// The changes that have to be on the disk before a request is answered.
///
/// After a restart of the machine, only the issued tokens and the registers of the file matter.
/// Until then, every client sees all changes, on disk or not. So only tokens and registers wait for
/// the disk. Such a commit also writes all earlier changes, since the log is written in order and
/// read up to its first gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Commit {
    /// None: the changes reach the disk with the next token, or when the system writes them.
    InOrder,
    /// All changes.
    OnDisk,
}

/// One transaction, with its findings and effects.
pub(crate) struct Txn<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) now: Micros,
    pub(crate) dead_clients: DeadClientCheck<'a>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) notifications: Notifications,
    pub(crate) dead: Vec<ClientId>,
    failure: Option<Error>,
    /// What it answers has to outlive a restart of the machine.
    pub(crate) needs_disk: bool,
    path: &'a Path,
    kind: Kind,
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Whether the transaction has only one request.
    pub(crate) alone: bool,
    pub(crate) commit: Commit,
}

impl<'a> Txn<'a> {
    pub(crate) fn new(
        db: &'a Connection,
        path: &'a Path,
        now: Micros,
        dead_clients: DeadClientCheck<'a>,
        memory: &'a mut Memory,
        kind: Kind,
    ) -> Self {
        Self {
            db,
            now,
            dead_clients,
            memory,
            notifications: Notifications::default(),
            dead: Vec::new(),
            failure: None,
            needs_disk: false,
            path,
            kind,
        }
    }

    /// Runs one request. If SQLite fails in it, its changes are undone, and the changes of the
    /// other requests stay.
    pub(crate) fn attempt<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Result<T> {
        let found_dead = self.dead.len();
        let result = self.set_apart().and_then(|()| operation(self));
        let ended = if self.db.is_autocommit() {
            Ok(())
        } else {
            self.end(matches!(result, Err(Fault::Sqlite(_))))
        };
        if ended.is_err() {
            // Nobody knows how many of the changes took effect, so the whole transaction is undone.
            let _ = self.run("ROLLBACK");
        }
        match ended.and(result) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sqlite(error)) => {
                // Their deaths are not recorded after all.
                self.dead.truncate(found_dead);
                Err(self.fail(error))
            }
        }
    }

    /// For a savepoint SQLite keeps a copy of every changed page, which costs as much as the
    /// changes. A single request needs no savepoint: the transaction is undone instead.
    fn set_apart(&self) -> Outcome<()> {
        if self.kind.alone { Ok(()) } else { self.run("SAVEPOINT request") }
    }

    fn end(&self, undo: bool) -> Outcome<()> {
        match (self.kind.alone, undo) {
            (true, false) => Ok(()),
            (true, true) => self.run("ROLLBACK"),
            (false, false) => self.run("RELEASE request"),
            (false, true) => self.run("ROLLBACK TO request; RELEASE request"),
        }
    }

    /// Some errors, such as a full disk, end the whole transaction.
    fn fail(&mut self, error: rusqlite::Error) -> Error {
        let error = fault::undone(self.path, error);
        if self.db.is_autocommit() {
            self.failure = Some(error.clone());
        }
        error
    }

    /// Refuses to issue a token without waiting for the disk: another boot must not issue it again.
    pub(crate) fn check_on_disk(&self, what: &str) -> Outcome<()> {
        if self.kind.commit == Commit::OnDisk {
            return Ok(());
        }
        let problem = format!("{what} was about to be given out that might not reach the disk");
        Err(Error::new(ErrorKind::Internal, problem).with_remedy("report this").into())
    }

    /// Why the transaction has ended before its commit, if it has.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.clone()
    }

    /// Whether its answers have to wait for the disk.
    pub(crate) fn needs_disk(&self) -> bool {
        self.needs_disk
    }

    /// The actions after the transaction: the failure to report, the waiters to notify, the dead
    /// clients to remove.
    pub(crate) fn finish(self) -> (Option<Error>, Notifications, Vec<ClientId>) {
        (self.failure, self.notifications, self.dead)
    }

    #[cfg(test)]
    pub(crate) fn pragma(&self, sql: &str) -> Outcome<()> {
        self.run(sql)
    }

    /// The number that a query gives.
    pub(crate) fn number(&self, sql: &str) -> Outcome<i64> {
        Ok(self.db.query_row(sql, [], |row| row.get(0))?)
    }

    /// How often the disk was waited for after a commit.
    #[cfg(test)]
    pub(crate) fn reached(&self) -> usize {
        self.memory.reached
    }

    /// Adds an unused name.
    #[cfg(test)]
    pub(crate) fn fill(&self, name: &str, fence: i64) -> Outcome<()> {
        let sql = "INSERT INTO lk_lock (name, fence, revision) VALUES (?1, ?2, 1)";
        self.change(sql, rusqlite::params![name.as_bytes(), fence]).map(drop)
    }

    pub(crate) fn run(&self, sql: &str) -> Outcome<()> {
        Ok(self.db.execute_batch(sql)?)
    }

    pub(crate) fn change(&self, sql: &str, params: impl rusqlite::Params) -> Outcome<usize> {
        Ok(self.db.prepare_cached(sql)?.execute(params)?)
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Option<T>> {
        use rusqlite::OptionalExtension;
        Ok(self.db.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Vec<T>> {
        Ok(self
            .db
            .prepare_cached(sql)?
            .query_map(params, read)?
            .collect::<rusqlite::Result<_>>()?)
    }
}
