//! The check for data that lives in an SQL database: the marks are columns of the protected row, and every access begins
//! with a statement that compares and raises them.
//!
//! These are functions that return text and parameters; no driver is needed to build them, and any driver can run them.
//!
//! - **[`open`](FencedTable::open) is the first statement of a transaction** that reads or writes the row, *also of one
//!   that only reads*: the first access of a new holder shuts out all older ones. If only writes were checked, an old
//!   holder's write would still get in between a new holder's read and its write, and an update would be lost. What the
//!   transaction has read before it is not covered.
//! - **[`write`](FencedTable::write) is the check and the write in one**, for a holder that writes without having read.
//! - **Run the statements in their order, each as a query. If the last one returns a row, go on; if it does not, roll
//!   back**: the holder is one no more, or there is no such row ([`look`](FencedTable::look) tells which). Counts of
//!   affected rows are not to be looked at: unless it is told otherwise, MySQL counts a row whose values were the same
//!   already as not affected, so a holder's second access would seem to be refused.
//!
//! The row belongs to one lock. Tokens of different locks say nothing about each other: where a sequencer comes with a
//! request, compare [its name](crate::Sequencer::name) before anything else.
//!
//! ```
//! use lockkeeper::Sequencer;
//! use lockkeeper::fence::sql::{Dialect, FencedTable, Statement};
//! use rusqlite::types::Value;
//! use rusqlite::{Connection, params_from_iter};
//!
//! /// Whether the access may go on.
//! fn admitted(db: &Connection, access: Vec<Statement<Value>>) -> rusqlite::Result<bool> {
//!     let mut admitted = false;
//!     for statement in access {
//!         admitted = db.prepare(&statement.sql)?.query(params_from_iter(statement.params))?.next()?.is_some();
//!     }
//!     Ok(admitted)
//! }
//!
//! let mut db = Connection::open_in_memory()?;
//! db.execute_batch("CREATE TABLE stock (id TEXT PRIMARY KEY, count INTEGER); INSERT INTO stock VALUES ('apples', 7)")?;
//! let stock = FencedTable::new(Dialect::Sqlite, "stock", "id", "fence")?;
//! for ddl in stock.add_columns() {
//!     db.execute_batch(&ddl)?;
//! }
//! let apples = || Value::from("apples".to_owned());
//!
//! // What A and B got with the lock: guard.sequencer().
//! let a: Sequencer = "lk1.x.33.stock%2Fapples".parse()?;
//! let b: Sequencer = "lk1.x.34.stock%2Fapples".parse()?;
//!
//! // B takes over, reads, and writes.
//! let transaction = db.transaction()?;
//! assert!(admitted(&transaction, stock.open(apples(), &b)?)?);
//! let count: i64 = transaction.query_row("SELECT count FROM stock WHERE id = 'apples'", [], |row| row.get(0))?;
//! transaction.execute("UPDATE stock SET count = ?1 WHERE id = 'apples'", [count - 1])?;
//! transaction.commit()?;
//!
//! // A goes on after a long pause, and is refused.
//! assert!(!admitted(&db, stock.write(apples(), &a, &[("count", Value::from(5))])?)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod identifier;
mod statement;

#[cfg(test)]
mod story;
#[cfg(test)]
mod tests;

use self::identifier::{column, distinct, table};
pub use self::statement::Statement;
use self::statement::Text;
use crate::fence::StaleReason;
use crate::{Error, ErrorKind, Mode, Result, Sequencer};

/// Whose SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite from 3.35 on. Begin the transaction with `BEGIN IMMEDIATE`, so that it need not be repeated.
    Sqlite,
    /// PostgreSQL, at any isolation level; from `REPEATABLE READ` on the access may fail with 40001, to be repeated.
    Postgres,
    /// MySQL and MariaDB, on InnoDB. All statements of an access belong into one transaction.
    MySql,
}

/// A table whose rows are protected by locks, one lock for each row.
///
/// Names have to be plain (`[A-Za-z_][A-Za-z0-9_]*`, 63 bytes at most; a table may have its schema before a dot), and
/// are quoted as they are: PostgreSQL has made those that were not quoted small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedTable {
    dialect: Dialect,
    table: String,
    key: String,
    /// The mark of the newest holder.
    any: String,
    /// The mark of the newest exclusive one, where there are others.
    exclusive: Option<String>,
}

impl FencedTable {
    /// The table `table`, whose column `key` tells which row, and whose column `fence` keeps the highest token that it
    /// has seen: a 64-bit integer, 0 before the first ([`add_columns`](Self::add_columns)). For locks that are held
    /// exclusively only.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is not plain, or one column for two purposes.
    pub fn new(dialect: Dialect, table_name: &str, key: &str, fence: &str) -> Result<Self> {
        let fenced =
            Self { dialect, table: table(table_name)?, key: column(key)?, any: column(fence)?, exclusive: None };
        distinct(&fenced.columns())?;
        Ok(fenced)
    }

    /// With one more column, for a lock that is also held by readers: it keeps the highest *exclusive* token, and the
    /// first one the highest of all. With one mark for both, a reader would be refused as soon as a younger reader
    /// beside it came first.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_exclusive(mut self, fence: &str) -> Result<Self> {
        self.exclusive = Some(column(fence)?);
        distinct(&self.columns())?;
        Ok(self)
    }

    /// The statements that add the columns to a table that does not have them. No holder that does not check them may
    /// be at work then.
    pub fn add_columns(&self) -> Vec<String> {
        let integer = if self.dialect == Dialect::Sqlite { "INTEGER" } else { "BIGINT" };
        let table = self.dialect.quoted(&self.table);
        let add = |column| {
            format!("ALTER TABLE {table} ADD COLUMN {} {integer} NOT NULL DEFAULT 0", self.dialect.quoted(column))
        };
        self.marks().map(add).collect()
    }

    /// Begins an access to the row: to be run first in a transaction that reads or writes it. See the
    /// [module](self) for how.
    ///
    /// `V` is what the driver takes as a parameter, or an enum of your own that you bind: whatever can be made of the
    /// token.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for permits, which no order of tokens can check, and for a shared holder
    /// without [the column for that](Self::with_exclusive).
    pub fn open<V: Clone + From<i64>>(&self, key: V, holder: &Sequencer) -> Result<Vec<Statement<V>>> {
        self.write(key, holder, &[])
    }

    /// Writes these columns of the row, if the holder is still one. See the [module](self) for how; but for MySQL no
    /// transaction is needed.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Invalid`](ErrorKind::Invalid) for the holder of a read lock, beside whom others may
    /// write what they have read, and for a column whose name is not plain, is there twice, or
    /// is the key's or a mark's.
    pub fn write<V>(&self, key: V, holder: &Sequencer, values: &[(&str, V)]) -> Result<Vec<Statement<V>>>
    where
        V: Clone + From<i64>,
    {
        if holder.mode() == Mode::Shared && !values.is_empty() {
            let problem = Error::invalid("the holder of a read lock may not write").about(holder.name().clone());
            return Err(problem.with_remedy("the write lock, or open() where nothing is written"));
        }
        let columns = values.iter().map(|(name, _)| column(name)).collect::<Result<Vec<_>>>()?;
        let mut all = self.columns();
        all.extend(columns.iter().map(String::as_str));
        distinct(&all)?;

        let newest = self.compared(holder)?;
        let token = || V::from(holder.token().as_i64());
        let mut update = Text::new(self.dialect);
        update.raw("UPDATE ").name(&self.table).raw(" SET ");
        self.raise(&mut update, holder.mode(), &token);
        for (name, (_, value)) in columns.iter().zip(values) {
            update.raw(", ").name(name).raw(" = ").value(value.clone());
        }
        self.guard(&mut update, key.clone(), newest, token());
        if self.dialect != Dialect::MySql {
            update.raw(" RETURNING 1");
            return Ok(vec![update.done()]);
        }
        // It has no RETURNING, and its count of affected rows depends on the client. What is locked is what is current:
        // a plain SELECT might look at a snapshot from before the update.
        let mut check = Text::new(self.dialect);
        check.raw("SELECT 1 FROM ").name(&self.table);
        self.guard(&mut check, key, newest, token());
        check.raw(" FOR UPDATE");
        Ok(vec![update.done(), check.done()])
    }

    /// What the row has seen, to tell a refused holder from a row that is not there: its marks, 0 before the first.
    pub fn look<V>(&self, key: V) -> Statement<V> {
        let mut look = Text::new(self.dialect);
        look.raw("SELECT ");
        for (i, mark) in self.marks().enumerate() {
            look.raw(if i == 0 { "" } else { ", " }).name(mark);
        }
        look.raw(" FROM ").name(&self.table).raw(" WHERE ").name(&self.key).raw(" = ").value(key);
        look.done()
    }

    fn marks(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.any.as_str()).chain(self.exclusive.as_deref())
    }

    fn columns(&self) -> Vec<&str> {
        std::iter::once(self.key.as_str()).chain(self.marks()).collect()
    }

    /// The mark that this holder must not be older than: the rule of [`Marks`](super::Marks), in SQL.
    fn compared(&self, holder: &Sequencer) -> Result<&str> {
        match (holder.mode(), &self.exclusive) {
            (Mode::Exclusive, _) => Ok(&self.any),
            (Mode::Shared, Some(exclusive)) => Ok(exclusive),
            (Mode::Shared, None) => {
                let problem = format!("{holder} is held beside others, and {:?} has one mark for all", self.table);
                Err(Error::new(ErrorKind::Unsupported, problem)
                    .with_remedy("a second column (FencedTable::with_exclusive)"))
            }
            (Mode::Permits(_), _) => {
                Err(Error::new(ErrorKind::Unsupported, format!("{holder} {}", StaleReason::NoGate)))
            }
        }
    }

    fn raise<V>(&self, text: &mut Text<V>, mode: Mode, token: &impl Fn() -> V) {
        if mode == Mode::Exclusive {
            for (i, mark) in self.marks().enumerate() {
                text.raw(if i == 0 { "" } else { ", " }).name(mark).raw(" = ").value(token());
            }
        } else {
            text.name(&self.any).raw(" = CASE WHEN ").name(&self.any).raw(" < ").value(token());
            text.raw(" THEN ").value(token()).raw(" ELSE ").name(&self.any).raw(" END");
        }
    }

    fn guard<V>(&self, text: &mut Text<V>, key: V, newest: &str, token: V) {
        text.raw(" WHERE ").name(&self.key).raw(" = ").value(key);
        text.raw(" AND ").name(newest).raw(" <= ").value(token);
    }
}
