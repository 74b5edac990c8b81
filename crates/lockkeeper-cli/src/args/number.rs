//! Numbers as people type them.

use std::ops::RangeInclusive;

/// A number above 0.
pub(super) fn above_0(text: &str) -> Result<u32, String> {
    read(text, 1..=u32::MAX, "a number above 0")
}

/// A number from 1 to 100000.
pub(super) fn up_to_100_000(text: &str) -> Result<u32, String> {
    read(text, 1..=100_000, "a number from 1 to 100000")
}

fn read(text: &str, range: RangeInclusive<u32>, remedy: &str) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is no number. Try: {remedy}"));
    }
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(number) => Err(format!("{number} is out of range. Try: {remedy}")),
        Err(_) => Err(format!("{text} is no number below 2^32. Try: {remedy}")),
    }
}
