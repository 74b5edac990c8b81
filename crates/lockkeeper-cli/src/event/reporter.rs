//! Who is told what of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
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
use crate::waiting::in_the_way;

/// A place in the line for a lock.
#[derive(Clone, Debug)]
pub(crate) struct QueuePosition {
    /// The name as it was typed.
    pub(crate) lock: String,
    pub(crate) ahead: u32,
}

/// Tells what happens to one run, once for each thing.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// The first name typed, which stands for the run.
    lock: String,
    sinks: Sinks,
    verbosity: Verbosity,
    status: Status,
    /// What the library's names are as they were typed.
    typed: OnceLock<Vec<(LockName, String)>>,
    holds: AtomicBool,
    in_jeopardy: AtomicBool,
    /// It is lost, and the command is being ended.
    is_over: AtomicBool,
    outage: Outage,
    away: Away,
    /// Somebody asks for a lock that is held now, and nobody has heard of it.
    requested: AtomicBool,
    on_request: Notify,
}

/// What was told of an outage: the remedies, if there were any, and nothing where nothing was told.
#[derive(Debug, Default)]
struct Outage(Mutex<Option<BTreeSet<String>>>);

impl Outage {
    /// Whether nothing was told of it yet, or not this remedy. Errors of several locks come in turn.
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
        let (holds, in_jeopardy, is_over) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        // With more than warnings, the lines of the log would mix with it.
        let status = Status::new(!sinks.json && verbosity == Verbosity::Warnings);
        let (typed, outage, away) = (OnceLock::new(), Outage::default(), Away::default());
        let (requested, on_request) = (AtomicBool::new(false), Notify::new());
        Self { lock, sinks, verbosity, status, typed, holds, in_jeopardy, is_over, outage, away, requested, on_request }
    }

    /// Says which names the events have.
    pub(crate) fn know(&self, typed: Vec<(LockName, String)>) {
        drop(self.typed.set(typed));
    }

    /// Only machines get this one.
    fn event(&self, lock: &str, event: &Event<'_>) {
        let (on_stderr, elsewhere) = (self.sinks.json.then_some(&self.sinks.stderr), self.sinks.events.as_ref());
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

    /// A warning that no event stands for.
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

    /// Whether people who wait are shown a line that changes.
    pub(crate) fn shows_status(&self) -> bool {
        self.status.is_possible()
    }

    /// Whether people are told of a wait at all, rather than machines.
    pub(crate) fn prints(&self) -> bool {
        !self.sinks.json && self.verbosity >= Verbosity::Warnings
    }

    /// Whether they want to hear of each place in line.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Info
    }

    /// Draws the line, in place of the last one.
    pub(crate) fn show_status(&self, text: &str) {
        self.status.show(&self.sinks.stderr, text);
    }

    /// Leaves nothing of it.
    pub(crate) fn wipe_status(&self) {
        self.status.wipe(&self.sinks.stderr);
    }

    /// Takes what the library tells of a keeper. Places in line are handed on, for somebody who can ask the store who
    /// is ahead.
    pub(crate) fn observe(&self, event: &LibraryEvent<'_>, positions: &UnboundedSender<QueuePosition>) {
        self.away.observe(event);
        match event {
            LibraryEvent::Queued { name, ahead, .. } => {
                drop(positions.send(QueuePosition { lock: self.typed(name).to_owned(), ahead: *ahead }));
            }
            LibraryEvent::Acquired { .. } => self.holds.store(true, Ordering::Relaxed),
            LibraryEvent::ReleaseRequested { name, by, reason, .. } => self.asked(self.typed(name), by, reason),
            LibraryEvent::ClaimFailed { name, error, .. } => self.waits_without_store(self.typed(name), error),
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

    /// Completes when somebody has asked for a lock since the last time. Cancel safe.
    pub(crate) async fn requested(&self) {
        while !self.requested.swap(false, Ordering::AcqRel) {
            self.on_request.notified().await;
        }
    }

    /// Who asked for what has ended meanwhile has it: no later command hears of that.
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

    /// People hear of an outage once, and again when there is something else that they can do about it.
    fn waits_without_store(&self, lock: &str, error: &Error) {
        if self.outage.is_news(error) {
            let (why, remedy) = (error.message(), remedy_of(error));
            let what = if error.kind() == ErrorKind::Unavailable { "does not answer" } else { "refuses the claim" };
            self.warn(&format!("lock {lock:?}: the store {what} ({why}); still waiting in line{remedy}"));
        }
    }

    pub(crate) fn queued(&self, position: &QueuePosition, holder: Option<&str>) {
        let QueuePosition { lock, ahead } = position;
        self.event(lock, &Event::Queued { ahead: *ahead, holder });
    }

    /// The lock was not acquired, and `line` has its holders and waiters. `limit` is how long the attempt was to wait. With
    /// `is_fine` the user has said that this is no failure, and stderr gets no message.
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
            if limit == Some(Limit::For(Duration::ZERO)) {
                return format!("not acquired{holder}. Try: --wait DURATION, which waits for it");
            }
            format!("not acquired within {}{holder}. Try: a longer --wait", human(waited))
        });
    }

    /// The same; machines hear of every try.
    fn renewal_failed(&self, lock: &str, error: &Error, remaining: Duration) {
        self.in_jeopardy.store(true, Ordering::Relaxed);
        let (why, left, remedy) = (error.message(), human(remaining), remedy_of(error));
        let event = Event::RenewalFailed { error: kind_word(error.kind()), remaining_ms: millis(remaining) };
        if !self.outage.is_news(error) {
            return self.event(lock, &event);
        }
        self.report(lock, &event, || {
            format!("a renewal failed ({why}); without another renewal the lock is lost in {left}{remedy}")
        });
    }

    /// After a loss that ends the command it helps nobody.
    fn recovered(&self) {
        self.outage.end();
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if self.in_jeopardy.swap(false, Ordering::Relaxed) {
            self.report(&self.lock, &Event::Recovered {}, || "renewals succeed again".to_owned());
        }
    }

    /// The lock is lost; `signal` is what the command gets for it now, if it still runs.
    pub(crate) fn lost(&self, lock: &str, reason: &LostReason, signal: Option<&str>) {
        self.report_lost(lock, reason, &printable(&reason.to_string()), signal);
    }

    /// The same of a lock whose lease has this much left: too little for the command to end in while nobody renews it.
    pub(crate) fn unrenewed(&self, lock: &str, left: Duration, signal: &str) {
        let why = format!("no renewal was answered in time, and the lease expires in {}", human(left));
        self.report_lost(lock, &LostReason::Expired, &why, Some(signal));
    }

    fn report_lost(&self, lock: &str, reason: &LostReason, sentence: &str, signal: Option<&str>) {
        let (by, why) = match reason {
            LostReason::Broken { by, reason } | LostReason::Removed { by, reason } => {
                (Some(by.as_str()), Some(reason.as_str()))
            }
            _ => (None, None),
        };
        self.is_over.fetch_or(signal.is_some(), Ordering::Relaxed);
        self.report(lock, &Event::Lost { reason: reason_word(reason), signal, by, why }, || match signal {
            Some(signal) => format!("lost: {sentence}; the command gets SIG{signal}"),
            None => format!("lost: {sentence}"),
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

    /// After this pause it begins anew, with another wait in line.
    pub(crate) fn restarting(&self, exit: Exit, pause: Duration, why: &str) {
        self.holds.store(false, Ordering::Relaxed);
        self.in_jeopardy.store(false, Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
        self.forget_requests();
        self.outage.end();
        let event = Event::Restarting { code: exit.code(), cause: exit.cause(), after_ms: millis(pause) };
        self.report(&self.lock, &event, || format!("campaigning again in {}: {why}", human(pause)));
    }

    /// The last that is heard of the run.
    pub(crate) fn exited(&self, exit: Exit) {
        self.event(&self.lock, &Event::Exited { code: exit.code(), cause: exit.cause() });
        self.flush();
    }

    /// Waits until what was told is written, but not for ever.
    pub(crate) fn flush(&self) {
        self.sinks.flush(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_remedy_is_reported_once_in_an_outage() {
        let outage = Outage::default();
        let failure = || Error::new(ErrorKind::Unavailable, "no answer");
        let [one, other] = ["start it", "delete it"].map(|remedy| failure().with_remedy(remedy));
        let news = |errors: &[&Error]| errors.iter().map(|error| outage.is_news(error)).collect::<Vec<_>>();
        let each = [&one, &other, &failure(), &one, &other];
        assert_eq!(news(&each), [true, true, false, false, false]);
        outage.end();
        assert_eq!(news(&each), [true, true, false, false, false]);
        outage.end();
        assert_eq!(news(&[&failure(), &failure(), &one, &failure()]), [true, false, true, false]);
    }

    #[tokio::test]
    async fn a_request_for_what_has_ended_is_heard_by_no_later_command() {
        let reporter = Reporter::new(&["a".to_owned()], Sinks::stderr(false).unwrap(), Verbosity::Errors);
        reporter.asked("a", "ops", "a test");
        reporter.forget_requests();
        assert!(tokio::time::timeout(Duration::from_millis(1), reporter.requested()).await.is_err());
        reporter.asked("a", "ops", "another test");
        reporter.requested().await;
    }
}
