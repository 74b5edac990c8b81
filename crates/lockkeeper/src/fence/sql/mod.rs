//! The check for data that lives in an SQL database: the marks are columns of the protected row,
//! and every access begins with a statement that compares and raises them.
//!
//! The functions return text and parameters. They need no driver, and any driver can run the
//! statements.
//!
//! - **[`open`](FencedTable::open) is the first statement of a transaction** that reads or writes
//!   the row, *also of one that only reads*: the first access of a new holder shuts out all older
//!   ones. If only writes were checked, an old holder's write would still get in between a new
//!   holder's read and its write, and an update would be lost. The check does not cover what the
//!   transaction has read before `open`.
//! - **[`write`](FencedTable::write) is the check and the write in one**, for a holder that writes
//!   without a read before.
//! - **Run the statements in their order, each as a query. If the last one returns a row, go on; if
//!   it does not, roll back**: the holder has lost its lock, or there is no such row
//!   ([`look`](FencedTable::look) says which). Do not use the counts of affected rows: by default
//!   MySQL does not count a row that already has the same values, so the second access of a holder
//!   would look like a refusal.
//!
//! The row belongs to one lock. The tokens of different locks cannot be compared: if a sequencer
//! comes with a request, compare [its name](crate::Sequencer::name) first.
//!
//! ```
//! use lockkeeper::Sequencer;
//! use lockkeeper::fence::sql::{Dialect, FencedTable, Statement};
//! use rusqlite::types::Value;
//! use rusqlite::{Connection, params_from_iter};
//!
//! /// Whether the access has passed.
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

/// The database whose SQL the statements use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite from 3.35 on. Begin the transaction with `BEGIN IMMEDIATE`, so that no transaction
    /// has to be repeated.
    Sqlite,
    /// PostgreSQL, at any isolation level. From `REPEATABLE READ` on, the access may fail with
    /// 40001; repeat it then.
    Postgres,
    /// MySQL and MariaDB, on InnoDB. Run all statements of an access in one transaction.
    MySql,
}

/// A table whose rows are protected by locks, one lock for each row.
///
/// Names have to be plain: `[A-Za-z_][A-Za-z0-9_]*`, at most 63 bytes. A table may have its schema
/// before a dot. The statements quote the names as they are. PostgreSQL has stored unquoted names
/// in lower case, so give those in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedTable {
    dialect: Dialect,
    table: String,
    key: String,
    /// The column with the mark of the newest holder.
    any: String,
    /// The column with the mark of the newest exclusive holder, if there are other holders.
    exclusive: Option<String>,
}

impl FencedTable {
    /// The table `table_name`. Its column `key` identifies a row. Its column `fence` has the
    /// highest token that the row has seen: a 64-bit integer, 0 before the first access
    /// ([`add_columns`](Self::add_columns)). This is for locks that are exclusive only.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is not plain, or for one column with two
    /// purposes.
    pub fn new(dialect: Dialect, table_name: &str, key: &str, fence: &str) -> Result<Self> {
        let fenced = Self {
            dialect,
            table: table(table_name)?,
            key: column(key)?,
            any: column(fence)?,
            exclusive: None,
        };
        distinct(&fenced.columns())?;
        Ok(fenced)
    }

    /// Adds a column for a lock that readers hold too. The new column has the highest *exclusive*
    /// token, and the first column has the highest token of all. With a single mark, the row would
    /// refuse a reader as soon as a newer reader came first.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_exclusive(mut self, fence: &str) -> Result<Self> {
        self.exclusive = Some(column(fence)?);
        distinct(&self.columns())?;
        Ok(self)
    }

    /// The statements that add the columns to a table without them. While they run, no holder that
    /// does not check the columns may be at work.
    pub fn add_columns(&self) -> Vec<String> {
        let integer = if self.dialect == Dialect::Sqlite { "INTEGER" } else { "BIGINT" };
        let table = self.dialect.quoted(&self.table);
        let add = |column| {
            format!(
                "ALTER TABLE {table} ADD COLUMN {} {integer} NOT NULL DEFAULT 0",
                self.dialect.quoted(column)
            )
        };
        self.marks().map(add).collect()
    }

    /// Begins an access to the row: the first statement of a transaction that reads or writes it.
    /// The [module](self) describes how to run it.
    ///
    /// `V` is the type that the driver takes as a parameter, or an enum of your own that you bind.
    /// It has to convert from the token, an `i64`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for permits, which no order of tokens can check, and
    /// for a shared holder without [the column for that](Self::with_exclusive).
    pub fn open<V: Clone + From<i64>>(
        &self,
        key: V,
        holder: &Sequencer,
    ) -> Result<Vec<Statement<V>>> {
        self.write(key, holder, &[])
    }

    /// Writes these columns of the row if no newer access that conflicts has passed. The
    /// [module](self) describes how to run it. Only MySQL needs a transaction for it.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Invalid`](ErrorKind::Invalid) for the holder of a read lock,
    /// since other readers hold the lock at the same time, and for a column whose name is not
    /// plain, occurs twice, or is that of the key or of a mark.
    pub fn write<V>(
        &self,
        key: V,
        holder: &Sequencer,
        values: &[(&str, V)],
    ) -> Result<Vec<Statement<V>>>
    where
        V: Clone + From<i64>,
    {
        if holder.mode() == Mode::Shared && !values.is_empty() {
            let problem = Error::invalid("the holder of a read lock may not write")
                .about(holder.name().clone());
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
        // MySQL has no RETURNING, and its count of affected rows depends on the client. A locking
        // SELECT reads the current row: a plain SELECT may read a snapshot from before the update.
        let mut check = Text::new(self.dialect);
        check.raw("SELECT 1 FROM ").name(&self.table);
        self.guard(&mut check, key, newest, token());
        check.raw(" FOR UPDATE");
        Ok(vec![update.done(), check.done()])
    }

    /// Reads the marks of the row, 0 before the first access. The result distinguishes a refused
    /// holder from a row that does not exist.
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

    /// The mark that must not be newer than this holder: the rule of [`Marks`](super::Marks), in
    /// SQL.
    fn compared(&self, holder: &Sequencer) -> Result<&str> {
        match (holder.mode(), &self.exclusive) {
            (Mode::Exclusive, _) => Ok(&self.any),
            (Mode::Shared, Some(exclusive)) => Ok(exclusive),
            (Mode::Shared, None) => {
                let problem =
                    format!("{holder} is shared, and the table {:?} has a single mark", self.table);
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
