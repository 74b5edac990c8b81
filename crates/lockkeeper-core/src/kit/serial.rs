//! The form of infos and events in JSON and similar formats: durations in milliseconds, tokens and
//! ids as text, words in snake case.

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::{Error, LockName, LostReason, Mode};

/// A duration as a number of milliseconds, rounded down.
pub fn millis<S: Serializer>(d: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_millis(d))
}

/// A duration as milliseconds, or null.
pub fn maybe_millis<S: Serializer>(d: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    d.as_ref().map(whole_millis).serialize(serializer)
}

/// A value in the text of its `Display`.
pub fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Bytes as text, with replacements for invalid parts.
pub fn lossy<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn whole_millis(d: &Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The message, with the lock, the store and the remedy.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `exclusive`, `shared` or `permits`.
impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permits(_) => "permits",
        })
    }
}

/// `reason` in a word; for a broken lock, also `by` and `why`.
impl Serialize for LostReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            reason: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            by: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            why: Option<&'a str>,
        }
        let (by, why) = match self {
            Self::Broken { by, reason } | Self::Removed { by, reason } => {
                (Some(&**by), Some(&**reason))
            }
            _ => (None, None),
        };
        let shown = Shown { reason: self.word(), by, why };
        shown.serialize(serializer)
    }
}
