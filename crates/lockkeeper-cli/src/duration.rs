//! Durations as people type them: `500ms`, `30s`, `5m`, `1h30m`; a bare number is seconds, as in flock(1).

use std::time::Duration;

const ALLOWED: &str = "a number of seconds, or numbers with the units h, m, s, ms: 500ms 30s 5m 1h30m";

/// Units from the longest to the shortest, in milliseconds: the order in which they may stand.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// How long something may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    For(Duration),
    Forever,
}

/// A duration, or `forever`.
pub(crate) fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "forever" {
        return Ok(Limit::Forever);
    }
    parse(text).map(Limit::For).map_err(|error| format!("{error}, or forever"))
}

/// A duration that ends.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(format!("it is empty; allowed is {ALLOWED}"));
    }
    if text == "forever" {
        return Err(format!("this cannot last for ever; allowed is {ALLOWED}"));
    }
    let (number, unit, rest) = component(text)?;
    let millis = if unit.is_empty() { scaled(number, 1000)? } else { sum(number, unit, rest)? };
    Ok(Duration::from_millis(millis))
}

fn sum<'a>(mut number: &'a str, mut unit: &'a str, mut rest: &'a str) -> Result<u64, String> {
    let mut millis = 0_u64;
    let mut allowed = &UNITS[..];
    loop {
        let Some(position) = allowed.iter().position(|(name, _)| *name == unit) else {
            return Err(unit_problem(unit));
        };
        millis = millis.checked_add(scaled(number, allowed[position].1)?).ok_or_else(too_long)?;
        allowed = &allowed[position + 1..];
        if rest.is_empty() {
            return Ok(millis);
        }
        (number, unit, rest) = component(rest)?;
    }
}

fn unit_problem(unit: &str) -> String {
    if unit.is_empty() {
        format!("a unit is missing at its end; allowed is {ALLOWED}")
    } else if UNITS.iter().any(|(name, _)| *name == unit) {
        format!("the unit {unit} stands twice or after a shorter one; allowed is {ALLOWED}")
    } else {
        format!("{unit:?} is not a unit; allowed is {ALLOWED}")
    }
}

/// Splits a number and the letters behind it off.
fn component(text: &str) -> Result<(&str, &str, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() {
        return Err(format!("a number is missing before {rest:?}; allowed is {ALLOWED}"));
    }
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    Ok((number, unit, rest))
}

/// A decimal number of units in milliseconds; what is finer than a millisecond is cut off.
fn scaled(number: &str, unit: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(format!("{number:?} is not a number; allowed is {ALLOWED}"));
    }
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let fraction = &fraction[..fraction.len().min(9)];
    let parts: u64 = fraction.parse().map_err(|_| too_long())?;
    let fraction = parts * unit / 10_u64.pow(u32::try_from(fraction.len()).unwrap_or(9));
    whole.checked_mul(unit).and_then(|millis| millis.checked_add(fraction)).ok_or_else(too_long)
}

fn too_long() -> String {
    "it is longer than this program can count".to_owned()
}

/// For people: two units at most, `1h30m`, `8.4s`, `120ms`.
pub(crate) fn human(d: Duration) -> String {
    let millis = d.as_millis();
    let seconds = d.as_secs();
    match seconds {
        0 => format!("{millis}ms"),
        1..10 => format!("{seconds}.{}s", millis % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Whole milliseconds, as machines get them.
pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manual_shows_is_understood() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("30", 30_000),
            ("0", 0),
            ("0.5", 500),
            ("1.5s", 1500),
            ("1m1s1ms", 61_001),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(parse_limit(text), Ok(Limit::For(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!(parse_limit("forever"), Ok(Limit::Forever));
    }

    #[test]
    fn an_error_names_what_is_allowed() {
        for text in ["", "forever", "5x", "s", "30m1h", "1s1s", "1h30", "-1", "1..5", ".5", "5.", "1 s", "½", "1e3"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("500ms 30s 5m 1h30m"), "{text:?}: {error}");
        }
        assert!(parse_limit("soon").unwrap_err().ends_with("or forever"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for text in ["99999999999999999999", "18446744073709551615s", "5124095576031h"] {
            assert!(parse(text).unwrap_err().contains("longer"), "{text}");
        }
    }

    #[test]
    fn people_read_two_units() {
        for (millis, text) in [(120, "120ms"), (8412, "8.4s"), (30_000, "30s"), (93_001, "1m33s"), (5_400_000, "1h30m")]
        {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }
}
