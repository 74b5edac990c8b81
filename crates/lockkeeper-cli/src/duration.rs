//! Durations as people type and read them. The grammar is the library's, so that URLs and options
//! take the same durations.

use std::time::Duration;

use lockkeeper::duration::parse_duration;

/// A limit of time.
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
    parse_duration(text).map_err(|error| error.to_string())
}

/// The shortest time in which a store can be expected to answer.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// A time after which a store that does not answer is given up.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        limit if limit >= SHORTEST_TIMEOUT => Ok(limit),
        _ => Err(format!("{text:?} is too short for an answer. Try: 10ms or more, like 5s")),
    }
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

/// Whole milliseconds, the form for programs.
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
            ("7d", 604_800_000),
            ("30", 30_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(parse_limit(text), Ok(Limit::For(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!(parse_limit("forever"), Ok(Limit::Forever));
    }

    #[test]
    fn an_error_names_what_is_allowed() {
        for text in [
            "",
            "forever",
            "5x",
            "s",
            "30m1h",
            "1s1s",
            "1h30",
            "-1",
            ".5",
            "1 s",
            "99999999999999999999",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("500ms, 30s, 5m, 1h30m"), "{text:?}: {error}");
        }
        assert!(parse_limit("soon").unwrap_err().ends_with("or forever"));
    }

    #[test]
    fn people_read_two_units() {
        for (millis, text) in [
            (120, "120ms"),
            (8412, "8.4s"),
            (30_000, "30s"),
            (93_001, "1m33s"),
            (5_400_000, "1h30m"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }
}
