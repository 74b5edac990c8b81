//! Reports the events of a run to people and programs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lockkeeper::{Error, ErrorKind, Event as LibraryEvent, LockInfo, LockName, LostReason};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use super::sink::LAST_LINES;
use super::status::Status;
use super::{Event, Sinks, kind_word, line, reason_word};
use crate::duration::{Limit, human, millis};
use crate::exit::Exit;
use crate::held::Held;
use crate::lock::{Away, first_holder};
use crate::output::{Verbosity, complaint, printable};
use crate::remedy::to_break;
use crate::waiting::{endless, in_the_way};

/// A place in the line for a lock.
#[derive(Clone, Debug)]
pub(crate) struct QueuePosition {
    /// The name as typed.
    pub(crate) lock: String,
    pub(crate) ahead: u32,
}

/// Reports each event of one run once.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// The first typed name, which the events of the whole run have.
    lock: String,
    sinks: Sinks,
    verbosity: Verbosity,
    status: Status,
    /// The library's names, and the same names as typed.
    typed: OnceLock<Vec<(LockName, String)>>,
    in_jeopardy: AtomicBool,
    /// A loss was reported. A report about a lock that is held keeps this locked until it is
    /// written, so that none comes after the loss.
    is_lost: Mutex<bool>,
    outage: Outage,
    away: Away,
    /// A client requests a lock that is held now, and this was not reported yet.
    requested: AtomicBool,
    on_request: Notify,
}

/// The reported outage: its remedies, if there were any; `None` if nothing was reported.
#[derive(Debug, Default)]
struct Outage(Mutex<Option<BTreeSet<String>>>);

impl Outage {
    /// Returns whether the outage or this remedy is new. Errors of several locks come in turn.
    fn is_news(&self, error: &Error) -> bool {
        let mut printed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = printed.is_none();
        let printed = printed.get_or_insert_default();
        let is_another = error.remedy().is_some_and(|remedy| printed.insert(remedy.to_owned()));
        is_first || is_another
    }

    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn remedy_of(error: &Error) -> String {
    error.remedy().map(|remedy| format!(". Try: {remedy}")).unwrap_or_default()
}

impl Reporter {
    pub(crate) fn new(names: &[String], sinks: Sinks, verbosity: Verbosity) -> Self {
        let lock = names.first().cloned().unwrap_or_default();
        let (in_jeopardy, is_lost) = (AtomicBool::new(false), Mutex::new(false));
        // With more than warnings, the lines of the log would mix with the status line.
        let status = Status::new(!sinks.json && verbosity == Verbosity::Warnings);
        let (typed, outage, away) = (OnceLock::new(), Outage::default(), Away::default());
        let (requested, on_request) = (AtomicBool::new(false), Notify::new());
        Self {
            lock,
            sinks,
            verbosity,
            status,
            typed,
            in_jeopardy,
            is_lost,
            outage,
            away,
            requested,
            on_request,
        }
    }

    /// Says which names the events have.
    pub(crate) fn know(&self, typed: Vec<(LockName, String)>) {
        drop(self.typed.set(typed));
    }

    /// Only machines get this one.
    fn event(&self, lock: &str, event: &Event<'_>) {
        let (on_stderr, elsewhere) =
            (self.sinks.json.then_some(&self.sinks.stderr), self.sinks.events.as_ref());
        let now = Timestamp::now();
        if let Some(textfile) = &self.sinks.textfile {
            textfile.note(lock, event, now);
        }
        // The same to the letter everywhere.
        let line = line(lock, event, now);
        for sink in on_stderr.into_iter().chain(elsewhere) {
            sink.write(line.clone());
        }
    }

    /// Machines get the event, people the sentence.
    fn report(&self, lock: &str, event: &Event<'_>, sentence: impl FnOnce() -> String) {
        self.event(lock, event);
        if !self.sinks.json {
            self.warn(&format!("lock {lock:?}: {}", sentence()));
        }
    }

    /// A warning without an event.
    pub(crate) fn warn(&self, message: &str) {
        if self.verbosity >= Verbosity::Warnings {
            self.complain(message);
        }
    }

    /// Why the run fails.
    pub(crate) fn complain(&self, message: &str) {
        let clear = self.status.before_a_line();
        self.sinks.stderr.write(format!("{clear}{}", complaint(message)));
    }

    /// Returns whether a line that changes shows people the wait.
    pub(crate) fn shows_status(&self) -> bool {
        self.status.is_possible()
    }

    /// Returns whether people see messages about a wait at all.
    pub(crate) fn prints(&self) -> bool {
        !self.sinks.json && self.verbosity >= Verbosity::Warnings
    }

    /// Returns whether people want to see each place in the queue.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Info
    }

    /// Draws the line, in place of the last one.
    pub(crate) fn show_status(&self, text: &str) {
        self.status.show(&self.sinks.stderr, text);
    }

    /// Removes the status line.
    pub(crate) fn wipe_status(&self) {
        self.status.wipe(&self.sinks.stderr);
    }

    /// Takes an event that the library reports for a keeper. Places in the queue go to the task
    /// that can ask the store for the claims ahead.
    pub(crate) fn observe(
        &self,
        event: &LibraryEvent<'_>,
        positions: &UnboundedSender<QueuePosition>,
    ) {
        self.away.observe(event);
        match event {
            LibraryEvent::Queued { name, ahead, .. } => {
                drop(
                    positions
                        .send(QueuePosition { lock: self.typed(name).to_owned(), ahead: *ahead }),
                );
            }
            LibraryEvent::ReleaseRequested { name, by, reason, .. } => {
                self.asked(self.typed(name), by, reason)
            }
            LibraryEvent::ClaimFailed { name, error, .. } => {
                self.waits_without_store(self.typed(name), error)
            }
            LibraryEvent::RenewalFailed { name, error, remaining, .. } => {
                self.renewal_failed(self.typed(name), error, *remaining);
            }
            LibraryEvent::Recovered => self.recovered(),
            _ => {}
        }
    }

    fn asked(&self, lock: &str, by: &str, why: &str) {
        self.report(lock, &Event::ReleaseRequested { by, why }, || {
            let why = if why.is_empty() { String::new() } else { format!(": {}", printable(why)) };
            format!("{} asks to let go{why}", printable(by))
        });
        self.requested.store(true, Ordering::Release);
        self.on_request.notify_one();
    }

    /// Completes when a client has requested a lock since the last call. Cancel safe.
    pub(crate) async fn requested(&self) {
        while !self.requested.swap(false, Ordering::AcqRel) {
            self.on_request.notified().await;
        }
    }

    /// The client that requested the lock has got it: a later command does not get the request.
    pub(crate) fn forget_requests(&self) {
        self.requested.store(false, Ordering::Release);
    }

    /// Whether the store does not answer.
    pub(crate) fn away(&self) -> &Away {
        &self.away
    }

    fn typed<'a>(&'a self, name: &'a LockName) -> &'a str {
        let known = self.typed.get().and_then(|typed| typed.iter().find(|(full, _)| full == name));
        known.map_or(name.as_str(), |(_, typed)| typed)
    }

    /// People see an outage once, and again when there is another remedy.
    fn waits_without_store(&self, lock: &str, error: &Error) {
        if self.outage.is_news(error) {
            let (why, remedy) = (error.message(), remedy_of(error));
            let what = if error.kind() == ErrorKind::Unavailable {
                "does not answer"
            } else {
                "refuses the claim"
            };
            self.warn(&format!(
                "lock {lock:?}: the store {what} ({why}); still waiting in line{remedy}"
            ));
        }
    }

    pub(crate) fn queued(&self, position: &QueuePosition, holder: Option<&str>) {
        let QueuePosition { lock, ahead } = position;
        self.event(lock, &Event::Queued { ahead: *ahead, holder });
    }

    /// The lock was not acquired, and `line` has its holders and waiters. `limit` is how long the
    /// attempt was to wait. `is_fine` says that the user takes this for no failure; stderr gets no
    /// message then.
    pub(crate) fn busy(
        &self,
        lock: &str,
        limit: Option<Limit>,
        waited: Duration,
        line: Option<&LockInfo>,
        is_fine: bool,
    ) {
        let holder = line.and_then(first_holder);
        let event = Event::Busy { waited_ms: millis(waited), holder: holder.as_deref() };
        if is_fine {
            return self.event(lock, &event);
        }
        self.report(lock, &event, || {
            let holder = line.map(in_the_way).unwrap_or_default();
            if let Some(endless) = line.and_then(endless) {
                let remedy = to_break(lock, &endless);
                return format!("not acquired{holder}, without an end. Try: {remedy}");
            }
            if limit == Some(Limit::For(Duration::ZERO)) {
                return format!("not acquired{holder}. Try: --wait DURATION, which waits for it");
            }
            format!("not acquired within {}{holder}. Try: a longer --wait", human(waited))
        });
    }

    fn is_lost(&self) -> MutexGuard<'_, bool> {
        self.is_lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for a renewal; programs get every try. After a loss, a renewal is of no use.
    fn renewal_failed(&self, lock: &str, error: &Error, remaining: Duration) {
        let is_lost = self.is_lost();
        if *is_lost {
            return;
        }
        self.in_jeopardy.store(true, Ordering::Relaxed);
        let (why, left, remedy) = (error.message(), human(remaining), remedy_of(error));
        let event = Event::RenewalFailed {
            error: kind_word(error.kind()),
            remaining_ms: millis(remaining),
        };
        if !self.outage.is_news(error) {
            return self.event(lock, &event);
        }
        self.report(lock, &event, || {
            format!("a renewal failed ({why}); without another renewal the lock is lost in {left}{remedy}")
        });
    }

    /// After a loss, a recovery is of no use.
    fn recovered(&self) {
        self.outage.end();
        let is_lost = self.is_lost();
        if *is_lost {
            return;
        }
        if self.in_jeopardy.swap(false, Ordering::Relaxed) {
            self.report(&self.lock, &Event::Recovered {}, || "the store answers again".to_owned());
        }
    }

    /// The lock is lost; the command gets `signal` for it now, if the command still runs.
    pub(crate) fn lost(&self, lock: &str, reason: &LostReason, signal: Option<&str>) {
        self.report_lost(lock, reason, &printable(&reason.to_string()), signal);
    }

    /// The same for a lock whose lease has this much left: too little time to end the command if no
    /// renewal comes.
    pub(crate) fn unrenewed(&self, lock: &str, left: Duration, signal: &str) {
        let why =
            format!("no renewal was answered in time, and the lease expires in {}", human(left));
        self.report_lost(lock, &LostReason::Expired, &why, Some(signal));
    }

    fn report_lost(&self, lock: &str, reason: &LostReason, sentence: &str, signal: Option<&str>) {
        let (by, why) = match reason {
            LostReason::Broken { by, reason } | LostReason::Removed { by, reason } => {
                (Some(by.as_str()), Some(reason.as_str()))
            }
            _ => (None, None),
        };
        let mut is_lost = self.is_lost();
        *is_lost = true;
        self.report(lock, &Event::Lost { reason: reason_word(reason), signal, by, why }, || {
            match signal {
                Some(signal) => format!("lost: {sentence}; the command gets SIG{signal}"),
                None => format!("lost: {sentence}"),
            }
        });
    }

    pub(crate) fn acquired(&self, held: &[Held], waited: Duration, ttl: Duration) {
        for Held { name, token, sequencer, mode } in held {
            let (waited_ms, ttl_ms) = (millis(waited), millis(ttl));
            self.event(name, &Event::Acquired { mode, token, sequencer, waited_ms, ttl_ms });
        }
    }

    pub(crate) fn released(&self, lock: &str, held: Duration) {
        self.event(lock, &Event::Released { held_ms: millis(held) });
    }

    pub(crate) fn started(&self, pid: u32) {
        self.event(&self.lock, &Event::Started { pid });
    }

    /// After this pause the next round begins, with another wait in the queue.
    pub(crate) fn restarting(&self, exit: Exit, pause: Duration, why: &str) {
        self.in_jeopardy.store(false, Ordering::Relaxed);
        *self.is_lost() = false;
        self.forget_requests();
        self.outage.end();
        let event =
            Event::Restarting { code: exit.code(), cause: exit.cause(), after_ms: millis(pause) };
        self.report(&self.lock, &event, || format!("campaigning again in {}: {why}", human(pause)));
    }

    /// The last event of the run.
    pub(crate) fn exited(&self, exit: Exit) {
        self.event(&self.lock, &Event::Exited { code: exit.code(), cause: exit.cause() });
        self.flush();
    }

    /// Waits until all reports are written, but not for ever.
    pub(crate) fn flush(&self) {
        self.sinks.flush(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Target;

    #[test]
    fn each_remedy_is_reported_once_in_an_outage() {
        let outage = Outage::default();
        let failure = || Error::new(ErrorKind::Unavailable, "no answer");
        let [one, other] = ["start it", "delete it"].map(|remedy| failure().with_remedy(remedy));
        let news = |errors: &[&Error]| {
            errors.iter().map(|error| outage.is_news(error)).collect::<Vec<_>>()
        };
        let each = [&one, &other, &failure(), &one, &other];
        assert_eq!(news(&each), [true, true, false, false, false]);
        outage.end();
        assert_eq!(news(&each), [true, true, false, false, false]);
        outage.end();
        assert_eq!(news(&[&failure(), &failure(), &one, &failure()]), [true, false, true, false]);
    }

    /// The events that this reporter writes.
    fn written(act: impl FnOnce(&Reporter)) -> Vec<String> {
        let (reader, writer) = std::io::pipe().unwrap();
        let target = Target::parse("events".into()).unwrap();
        let sinks = Sinks::stderr(false).unwrap().and(&target, writer.into()).unwrap();
        let reporter = Reporter::new(&["a".to_owned()], sinks, Verbosity::Errors);
        act(&reporter);
        reporter.flush();
        drop(reporter);
        let lines = std::io::read_to_string(reader).unwrap();
        let name = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["event"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        lines.lines().map(name).collect()
    }

    #[test]
    fn after_a_loss_no_renewal_is_reported() {
        let failure = Error::new(ErrorKind::Unavailable, "no answer").with_remedy("start it");
        for signal in [Some("TERM"), None] {
            let events = written(|reporter| {
                reporter.renewal_failed("a", &failure, Duration::from_secs(3));
                reporter.recovered();
                reporter.lost("a", &LostReason::Expired, signal);
                reporter.renewal_failed("a", &failure, Duration::from_secs(1));
                reporter.recovered();
                reporter.restarting(Exit::Lost, Duration::from_secs(1), "it was lost");
                reporter.renewal_failed("a", &failure, Duration::from_secs(3));
            });
            let expected = ["renewal_failed", "recovered", "lost", "restarting", "renewal_failed"];
            assert_eq!(events, expected, "{signal:?}");
        }
    }

    #[tokio::test]
    async fn a_request_for_an_ended_hold_reaches_no_later_command() {
        let reporter =
            Reporter::new(&["a".to_owned()], Sinks::stderr(false).unwrap(), Verbosity::Errors);
        reporter.asked("a", "ops", "a test");
        reporter.forget_requests();
        assert!(
            tokio::time::timeout(Duration::from_millis(1), reporter.requested()).await.is_err()
        );
        reporter.asked("a", "ops", "another test");
        reporter.requested().await;
    }
}
