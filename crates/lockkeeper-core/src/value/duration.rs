//! Durations as people write them: `500ms`, `30s`, `5m`, `1h30m`, `7d`. A bare number, such as `30`
//! or `0.5`, is in seconds.

use std::time::Duration;

use crate::name::shown;
use crate::{Error, Result};

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads a duration: whole numbers with the units `d`, `h`, `m`, `s` and `ms`, longest unit first,
/// each at most once. A day has 24 hours. A bare number is in seconds, as in flock(1), with up to
/// three decimals.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::duration::parse_duration;
///
/// assert_eq!(parse_duration("1h30m")?, Duration::from_secs(5400));
/// assert_eq!(parse_duration("30")?, parse_duration("30s")?);
/// # Ok::<(), lockkeeper::Error>(())
/// ```
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) for anything else, and for more than `u64::MAX`
/// milliseconds. The function does not accept `forever`: a caller that allows this word tests for
/// it first.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let millis = if text.bytes().any(|b| b.is_ascii_alphabetic()) {
        with_units(text)
    } else {
        seconds(text)
    };
    millis.map(Duration::from_millis).ok_or_else(|| {
        Error::invalid(format!("{} is not a duration", shown(text)))
            .with_remedy("500ms, 30s, 5m, 1h30m, 7d or seconds")
    })
}

/// A bare number of seconds, in milliseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(millis)
}

/// The sum in milliseconds, or `None` when a part is malformed, out of order, or too large.
fn with_units(text: &str) -> Option<u64> {
    let (mut rest, mut units, mut sum) = (text, &UNITS[..], 0_u64);
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let at = units.iter().position(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(units[at].1)?)?;
        if after.is_empty() {
            return Some(sum);
        }
        (rest, units) = (after, &units[at + 1..]);
    }
}

/// Writes a duration so that [`parse_duration`] reads it back, rounded down to milliseconds. The
/// longest unit is the hour, which versions of lockkeeper without days read too.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::duration::format_duration;
///
/// assert_eq!(format_duration(Duration::from_millis(90_500)), "1m30s500ms");
/// assert_eq!(format_duration(Duration::ZERO), "0s");
/// ```
pub fn format_duration(d: Duration) -> String {
    let mut left = u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in &UNITS[1..] {
        if left >= *millis {
            text.push_str(&format!("{}{unit}", left / millis));
            left %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30", 30_000),
            ("0", 0),
            ("0.5", 500),
            ("1.25", 1250),
            ("2.001", 2001),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h2m3s4ms", 3_723_004),
            ("90m", 5_400_000),
            ("7d", 604_800_000),
            ("1d12h", 129_600_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_forms_that_are_read() {
        let refused = [
            "", " ", "forever", "-1s", "1.5s", "s", "1 s", "30m1h", "1h1h", "1h30", "1w", "1D",
            "1h1d", "1S", "1ms1s", ".5", "1.", "1.0001", "1..2", ".",
        ];
        for text in refused.into_iter().chain([
            "18446744073709551616",
            "18446744073709551615",
            "99999999999999999d",
        ]) {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{text:?}");
            assert!(
                error.to_string().ends_with("Try: 500ms, 30s, 5m, 1h30m, 7d or seconds"),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis: u64) {
            let d = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(d)).unwrap(), d);
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[0-9dhms]{0,30}") {
            let _ = parse_duration(&text);
        }
    }
}
