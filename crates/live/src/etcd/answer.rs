//! The answers of etcd's HTTP gateway: JSON, with bytes in base64 and numbers in strings.

use std::fmt;

use anyhow::{Context, Result};
use data_encoding::BASE64;
use serde_json::Value;

/// A key, with its value and its revisions.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value of the key.
    pub value: Vec<u8>,
    /// The revision that created the key.
    pub create_revision: i64,
    /// The revision of the key's last change.
    pub mod_revision: i64,
    /// The number of writes since the key was created.
    pub version: i64,
    /// The lease of the key; 0 for none.
    pub lease: i64,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} (", self.key.escape_ascii(), self.value.escape_ascii())?;
        write!(f, "created {}, changed {}, ", self.create_revision, self.mod_revision)?;
        write!(f, "version {}, lease {:x})", self.version, self.lease)
    }
}

pub(super) fn entries(answer: &Value) -> Result<Vec<Entry>> {
    let entry = |entry: &Value| {
        Ok(Entry {
            key: bytes(&entry["key"])?,
            value: bytes(&entry["value"])?,
            create_revision: number(&entry["create_revision"])?,
            mod_revision: number(&entry["mod_revision"])?,
            version: number(&entry["version"])?,
            lease: number(&entry["lease"])?,
        })
    };
    list(&answer["kvs"]).map(entry).collect()
}

pub(super) fn revision(answer: &Value) -> Result<i64> {
    number(&answer["header"]["revision"])
}

/// A missing value is empty, 0 or false.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>> {
    let text = value.as_str().unwrap_or_default();
    BASE64.decode(text.as_bytes()).with_context(|| format!("{text:?} is not base64"))
}

pub(super) fn number(value: &Value) -> Result<i64> {
    let number = value.as_str().map_or(Ok(0), str::parse);
    number.with_context(|| format!("{value} is no number"))
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}
