//! Text with placeholders, and the values for them.

use super::Dialect;

/// One statement: its text, and the values of its placeholders in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement<V> {
    /// The text, with the placeholders `?` for SQLite and MySQL, and `$1`, `$2` … for PostgreSQL.
    /// Each parameter has one placeholder.
    pub sql: String,
    /// The values to bind, from the first placeholder to the last.
    pub params: Vec<V>,
}

/// A statement that is being written. Names come from the outside only through
/// [`name`](Self::name), values only through [`value`](Self::value).
#[derive(Debug)]
pub(super) struct Text<V> {
    dialect: Dialect,
    sql: String,
    params: Vec<V>,
}

impl<V> Text<V> {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, sql: String::new(), params: Vec::new() }
    }

    pub(super) fn raw(&mut self, text: &'static str) -> &mut Self {
        self.sql.push_str(text);
        self
    }

    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        self.sql.push_str(&self.dialect.quoted(name));
        self
    }

    pub(super) fn value(&mut self, value: V) -> &mut Self {
        self.params.push(value);
        match self.dialect {
            Dialect::Postgres => self.sql.push_str(&format!("${}", self.params.len())),
            Dialect::Sqlite | Dialect::MySql => self.sql.push('?'),
        }
        self
    }

    pub(super) fn done(self) -> Statement<V> {
        Statement { sql: self.sql, params: self.params }
    }
}
