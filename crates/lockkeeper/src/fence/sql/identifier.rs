//! Names of tables and columns. A parameter cannot carry a name, so only plain names become part of
//! a text.

use super::Dialect;
use crate::name::shown;
use crate::{Error, Result};

/// The length that PostgreSQL keeps of a name. It cuts off the rest, so two longer names could
/// become one.
const LONGEST: usize = 63;

/// A table, with or without its schema.
pub(super) fn table(name: &str) -> Result<String> {
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_plain(part)) {
        return Err(refused(name, "table"));
    }
    Ok(name.to_owned())
}

pub(super) fn column(name: &str) -> Result<String> {
    if is_plain(name) { Ok(name.to_owned()) } else { Err(refused(name, "column")) }
}

/// Refuses one column for two purposes. The databases treat `Id` and `id` as one name, at least
/// without quotes.
pub(super) fn distinct(columns: &[&str]) -> Result<()> {
    let twice = columns
        .iter()
        .enumerate()
        .find(|(i, name)| columns[..*i].iter().any(|c| c.eq_ignore_ascii_case(name)));
    match twice {
        None => Ok(()),
        Some((_, name)) => {
            Err(Error::invalid(format!("the column {name:?} is used for two purposes"))
                .with_remedy("a column of its own for the key, for each mark, and for each value"))
        }
    }
}

fn is_plain(name: &str) -> bool {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins_well
        && name.len() <= LONGEST
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn refused(name: &str, what: &str) -> Error {
    let shown = shown(name);
    Error::invalid(format!("{shown} cannot be used as the name of a {what}")).with_remedy(
        "a name of ASCII letters, digits and _ that begins with no digit, of at most 63 bytes",
    )
}

impl Dialect {
    /// The name in quotes, so a reserved word is a name too.
    pub(super) fn quoted(self, name: &str) -> String {
        let mark = match self {
            Self::Postgres => '"',
            // SQLite reads "name" as a string if there is no such column, and compares that.
            Self::Sqlite | Self::MySql => '`',
        };
        name.split('.').map(|part| format!("{mark}{part}{mark}")).collect::<Vec<_>>().join(".")
    }
}
