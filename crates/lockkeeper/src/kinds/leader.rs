//! The leader of an election, as every client finds it.

use std::borrow::Cow;
use std::time::Duration;

use crate::engine::mode;
use crate::store::{Line, MAX};
use crate::{FencingToken, Mode};

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Leader {
    /// The value that it shows.
    #[serde(serialize_with = "crate::serial::lossy")]
    pub value: Vec<u8>,
    /// The owner that it names itself.
    pub owner: String,
    /// The token of its leadership.
    pub token: FencingToken,
    /// How long it has led, if the store knows.
    #[serde(rename = "led_ms", serialize_with = "crate::serial::maybe_millis")]
    pub led: Option<Duration>,
}

impl Leader {
    /// The value as text. Bytes that are not UTF-8 are shown as U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }

    pub(super) fn of(line: &Line) -> Option<Self> {
        let first = line.entries.first().filter(|entry| entry.granted && !entry.kept)?;
        if mode(first.weight, line.capacity().unwrap_or(MAX)) != Mode::Exclusive {
            return None;
        }
        Some(Self {
            value: first.meta.value.as_deref().unwrap_or_default().to_vec(),
            owner: first.meta.owner.to_string(),
            token: FencingToken::new(first.meta.epoch, first.token?)?,
            led: first.age,
        })
    }
}
