//! The events of a run: as JSON Lines for programs, on stderr or where `--events` says, and as
//! short warnings for people on stderr.

mod reporter;
mod sink;
mod status;
mod target;
mod textfile;

use jiff::Timestamp;
use lockkeeper::{ErrorKind, LostReason};
use serde::Serialize;

pub(crate) use reporter::{QueuePosition, Reporter};
pub(crate) use sink::{LAST_LINES, Log, Sink, Sinks};
pub(crate) use target::Target;

/// An event with the fields that the manual describes.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Event<'a> {
    Queued {
        ahead: u32,
        holder: Option<&'a str>,
    },
    Acquired {
        mode: &'a str,
        token: &'a str,
        sequencer: &'a str,
        waited_ms: u64,
        ttl_ms: u64,
    },
    Started {
        pid: u32,
    },
    RenewalFailed {
        error: &'a str,
        remaining_ms: u64,
    },
    Recovered {},
    Lost {
        reason: &'a str,
        signal: Option<&'a str>,
        /// The operator of the break, and the reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<&'a str>,
    },
    /// A client requests the lock.
    ReleaseRequested {
        by: &'a str,
        why: &'a str,
    },
    Released {
        held_ms: u64,
    },
    Busy {
        waited_ms: u64,
        holder: Option<&'a str>,
    },
    Restarting {
        code: u8,
        cause: &'a str,
        after_ms: u64,
    },
    Exited {
        code: u8,
        cause: &'a str,
    },
    /// The event is about the stream rather than a lock: a reader was too slow.
    LinesLost {
        lines: u64,
    },
}

impl Event<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Acquired { .. } => "acquired",
            Self::Started { .. } => "started",
            Self::RenewalFailed { .. } => "renewal_failed",
            Self::Recovered {} => "recovered",
            Self::Lost { .. } => "lost",
            Self::ReleaseRequested { .. } => "release_requested",
            Self::Released { .. } => "released",
            Self::Busy { .. } => "busy",
            Self::Restarting { .. } => "restarting",
            Self::Exited { .. } => "exited",
            Self::LinesLost { .. } => "lines_lost",
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    time: String,
    lock: &'a str,
    #[serde(flatten)]
    fields: &'a Event<'a>,
}

fn line(lock: &str, event: &Event<'_>, now: Timestamp) -> String {
    let line = Line { event: event.name(), time: format!("{now:.3}"), lock, fields: event };
    let mut json = serde_json::to_string(&line).unwrap_or_default();
    json.push('\n');
    json
}

/// The form for programs.
pub(crate) fn reason_word(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::Broken { .. } | LostReason::Removed { .. } => "broken",
        LostReason::MaxHold => "max_hold",
        LostReason::SessionExpired => "session_expired",
        LostReason::Forgotten => "forgotten",
        _ => "expired",
    }
}

fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Timeout => "timeout",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Lost => "lost",
        ErrorKind::SessionLost => "session_lost",
        ErrorKind::Mismatch => "mismatch",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Denied => "denied",
        ErrorKind::Invalid => "invalid",
        ErrorKind::QueueFull => "queue_full",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Closed => "closed",
        _ => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_fields_of_the_manual_in_their_order() {
        let now: Timestamp = "2026-11-21T06:00:00.12Z".parse().unwrap();
        let json = |event| line("deploy/web", &event, now);
        assert_eq!(
            json(Event::Queued { ahead: 2, holder: Some("ci@runner-7:4411") }),
            "{\"event\":\"queued\",\"time\":\"2026-11-21T06:00:00.120Z\",\"lock\":\"deploy/web\",\"ahead\":2,\
             \"holder\":\"ci@runner-7:4411\"}\n"
        );
        let head = |event: &str| {
            format!(
                "{{\"event\":\"{event}\",\"time\":\"2026-11-21T06:00:00.120Z\",\"lock\":\"deploy/web\""
            )
        };
        assert_eq!(json(Event::Recovered {}), format!("{}}}\n", head("recovered")));
        assert_eq!(
            json(Event::Lost { reason: "expired", signal: Some("TERM"), by: None, why: None }),
            format!("{},\"reason\":\"expired\",\"signal\":\"TERM\"}}\n", head("lost"))
        );
        assert_eq!(
            json(Event::Exited { code: 79, cause: "lost" }),
            format!("{},\"code\":79,\"cause\":\"lost\"}}\n", head("exited"))
        );
    }
}
