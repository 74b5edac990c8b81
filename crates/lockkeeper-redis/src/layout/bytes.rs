//! Packed numbers and texts: little-endian, as Redis' `struct` writes them.

use std::time::Duration;

use redis::Value;

use crate::store::ClaimId;
use crate::{Error, ErrorKind, Result};

/// How many bytes of a claim's id an answer repeats.
const MARK: usize = 8;

/// Reads an answer from its front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` names the answer in an error.
    pub(super) fn new(rest: &'a [u8], what: &'static str) -> Self {
        Self { rest, what }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| garbled(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| garbled(self.what))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A text of this many bytes. lockkeeper writes UTF-8; anything else is only shown.
    pub(super) fn text(&mut self, len: impl Into<usize>) -> Result<std::borrow::Cow<'a, str>> {
        Ok(String::from_utf8_lossy(self.take(len.into())?))
    }

    pub(super) fn garbled(&self) -> Error {
        garbled(self.what)
    }
}

/// The longest beginning of a text whose length fits 16 bits.
pub(super) fn cut(text: &str) -> &str {
    let fits =
        (0..=text.len().min(usize::from(u16::MAX))).rev().find(|end| text.is_char_boundary(*end));
    &text[..fits.unwrap_or(0)]
}

/// The length of a text that was [cut].
pub(super) fn len16(text: &str) -> [u8; 2] {
    u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes()
}

/// The bytes of an answer that is one string.
pub(super) fn bulk<'a>(value: &'a Value, what: &'static str) -> Result<&'a [u8]> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(garbled(what)),
    }
}

/// The bytes of an answer about this claim. Each answer begins with a part of the claim's id, so
/// that no request takes the answer of another.
pub(super) fn about<'a>(id: &ClaimId, value: &'a Value, what: &'static str) -> Result<&'a [u8]> {
    bulk(value, what)?.strip_prefix(&id.as_bytes()[..MARK]).ok_or_else(|| garbled(what))
}

/// An answer that is one of a few numbers.
pub(super) fn int(value: &Value, what: &'static str) -> Result<i64> {
    match value {
        Value::Int(int) => Ok(*int),
        _ => Err(garbled(what)),
    }
}

/// A raw token as it travels in a double: whole, and in 1..=2^53.
pub(super) fn token(number: f64) -> Option<u64> {
    let fits = (1.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

/// A number of microseconds; zero if it is negative.
pub(super) fn time(micros: f64) -> Duration {
    Duration::from_micros(micros.max(0.0) as u64)
}

/// The error about an answer that its script does not give. The answer may belong to another
/// request, so the effect is unknown.
pub(super) fn garbled(what: &'static str) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("the answer of {what} is not one that the script gives"),
    )
    .with_unknown_effect()
    .with_remedy("look whether a proxy or another program answers there")
}
