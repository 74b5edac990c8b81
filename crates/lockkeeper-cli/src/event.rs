//! What happens during a run, as JSON Lines for machines or as short warnings for people, on stderr.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use lockkeeper::{Error, ErrorKind, Event as LibraryEvent, LostReason};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedSender;

use crate::duration::{human, millis};
use crate::exit::Exit;
use crate::output::{Verbosity, complain, printable};

/// Who waited for less than this has tried, not waited.
const MOMENT: Duration = Duration::from_millis(50);

/// An event with the fields that the manual gives it.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Event<'a> {
    Queued { ahead: u32, holder: Option<&'a str> },
    Acquired { mode: &'a str, token: &'a str, sequencer: &'a str, waited_ms: u64, ttl_ms: u64 },
    Started { pid: u32 },
    RenewalFailed { error: &'a str, remaining_ms: u64 },
    Recovered {},
    Lost { reason: &'a str, signal: Option<&'a str> },
    Released { held_ms: u64 },
    Busy { waited_ms: u64, holder: Option<&'a str> },
    Exited { code: u8, cause: &'a str },
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
            Self::Released { .. } => "released",
            Self::Busy { .. } => "busy",
            Self::Exited { .. } => "exited",
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

/// Tells what happens to one run, once for each thing.
#[derive(Debug)]
pub(crate) struct Reporter {
    lock: String,
    json: bool,
    verbosity: Verbosity,
    holds: AtomicBool,
    in_jeopardy: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(lock: &str, json: bool, verbosity: Verbosity) -> Self {
        let (holds, in_jeopardy) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { lock: lock.to_owned(), json, verbosity, holds, in_jeopardy }
    }

    /// Only machines get this one.
    pub(crate) fn event(&self, event: &Event<'_>) {
        if self.json {
            // One write per line, so that lines of several processes do not mix.
            drop(io::stderr().lock().write_all(line(&self.lock, event, Timestamp::now()).as_bytes()));
        }
    }

    /// Machines get the event, people the sentence.
    fn tell(&self, event: &Event<'_>, sentence: impl FnOnce() -> String) {
        self.event(event);
        if !self.json {
            self.warn(&format!("lock {:?}: {}", self.lock, sentence()));
        }
    }

    /// A warning that no event stands for.
    pub(crate) fn warn(&self, message: &str) {
        if self.verbosity >= Verbosity::Warnings {
            complain(message);
        }
    }

    /// Takes what the library tells of a keeper. Places in line are handed on, for somebody who can ask the store who
    /// is ahead.
    pub(crate) fn observe(&self, event: &LibraryEvent<'_>, place: &UnboundedSender<u32>) {
        match event {
            LibraryEvent::Queued { ahead, .. } => drop(place.send(*ahead)),
            LibraryEvent::Acquired { .. } => self.holds.store(true, Ordering::Relaxed),
            LibraryEvent::Jeopardy if !self.holds.load(Ordering::Relaxed) => self.waits_without_store(),
            LibraryEvent::RenewalFailed { error, remaining, .. } => self.renewal_failed(error, *remaining),
            LibraryEvent::Recovered => self.recovered(),
            _ => {}
        }
    }

    fn waits_without_store(&self) {
        self.warn(&format!("lock {:?}: the store does not answer; still waiting in line", self.lock));
    }

    pub(crate) fn queued(&self, ahead: u32, holder: Option<&str>) {
        self.event(&Event::Queued { ahead, holder });
        if !self.json && self.verbosity >= Verbosity::Info {
            complain(&format!("lock {:?}: waiting, {ahead} ahead{}", self.lock, held_by(holder)));
        }
    }

    pub(crate) fn busy(&self, waited: Duration, holder: Option<&str>) {
        self.tell(&Event::Busy { waited_ms: millis(waited), holder }, || {
            let within = if waited < MOMENT {
                "not acquired".to_owned()
            } else {
                format!("not acquired within {}", human(waited))
            };
            format!("{within}{}", held_by(holder))
        });
    }

    /// People hear of an outage once, machines of every try.
    fn renewal_failed(&self, error: &Error, remaining: Duration) {
        let again = self.in_jeopardy.swap(true, Ordering::Relaxed);
        let (why, left) = (error.message(), human(remaining));
        let event = Event::RenewalFailed { error: kind_word(error.kind()), remaining_ms: millis(remaining) };
        if again {
            return self.event(&event);
        }
        self.tell(&event, || format!("a renewal failed ({why}); without another one it is lost in {left}"));
    }

    fn recovered(&self) {
        if self.in_jeopardy.swap(false, Ordering::Relaxed) {
            self.tell(&Event::Recovered {}, || "it is renewed again".to_owned());
        }
    }

    /// The lock is lost; `signal` is what the command gets for it now, if it still runs.
    pub(crate) fn lost(&self, reason: &LostReason, signal: Option<&str>) {
        self.tell(&Event::Lost { reason: reason_word(reason), signal }, || match signal {
            Some(signal) => format!("lost: {}; the command gets SIG{signal}", printable(&reason.to_string())),
            None => format!("lost: {}", printable(&reason.to_string())),
        });
    }

    pub(crate) fn exited(&self, exit: Exit) {
        self.event(&Event::Exited { code: exit.code(), cause: exit.cause() });
    }
}

fn held_by(holder: Option<&str>) -> String {
    holder.map(|holder| format!("; held by {}", printable(holder))).unwrap_or_default()
}

/// As machines read it.
pub(crate) fn reason_word(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::Broken { .. } => "broken",
        LostReason::MaxHold => "max_hold",
        LostReason::SessionExpired => "session_expired",
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
            format!("{{\"event\":\"{event}\",\"time\":\"2026-11-21T06:00:00.120Z\",\"lock\":\"deploy/web\"")
        };
        assert_eq!(json(Event::Recovered {}), format!("{}}}\n", head("recovered")));
        assert_eq!(
            json(Event::Lost { reason: "expired", signal: Some("TERM") }),
            format!("{},\"reason\":\"expired\",\"signal\":\"TERM\"}}\n", head("lost"))
        );
        assert_eq!(
            json(Event::Exited { code: 79, cause: "lost" }),
            format!("{},\"code\":79,\"cause\":\"lost\"}}\n", head("exited"))
        );
    }
}
