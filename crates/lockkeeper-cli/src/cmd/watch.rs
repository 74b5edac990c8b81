//! `lockkeeper watch [NAME|PREFIX*]`: who takes, leaves and waits for locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use lockkeeper::{Admin, Error, LockInfo, LockName, LockWatch};
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::sleep;

use crate::args::WatchArgs;
use crate::child::signals::Signals;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::{Columns, Tone, Verbosity, answer, colours, complain, json_line, printable};
use crate::settings::Settings;

/// Between two looks at many locks, and between two tries to reach a store that is away.
const LOOK: Duration = Duration::from_secs(1);

/// Prints a line for each change until INT or TERM.
pub(crate) async fn watch(args: &WatchArgs, settings: &Settings) -> Result<Exit, Failure> {
    let prefix = args.subject.strip_suffix('*');
    if prefix.is_none() {
        LockName::new(&args.subject)?;
        if args.subject.contains('*') && settings.verbosity >= Verbosity::Warnings {
            let subject = &args.subject;
            complain(&format!(
                "{subject:?} is the name of one lock here: only a * at the end stands for many locks"
            ));
        }
    }
    let mut signals = Signals::catch_only(&[Signal::INT, Signal::TERM]).map_err(|error| {
        Failure::new(Exit::Internal, format!("signals cannot be caught: {error}"))
    })?;
    let watching = async {
        let keeper = lock::watch(settings, Terms::default()).await?;
        let subject = match prefix {
            Some(prefix) => Subject::Many { admin: keeper.admin()?, prefix, is_first: true },
            None => Subject::One(keeper.watch(args.subject.as_str())?),
        };
        print_changes(subject, settings).await
    };
    tokio::select! {
        biased;
        _ = signals.next() => Ok(Exit::Ok),
        ended = watching => ended,
    }
}

async fn print_changes(mut subject: Subject<'_>, settings: &Settings) -> Result<Exit, Failure> {
    let (mut known, mut problems, mut is_away) = (Known::default(), Problems::default(), false);
    // The longest word of the second column.
    let mut columns =
        Columns::new(colours(&io::stdout())).with_room_for(["", "queued"].into_iter());
    loop {
        match subject.look().await {
            Ok(locks) => {
                is_away = false;
                if settings.verbosity >= Verbosity::Warnings {
                    problems.print(&locks);
                }
                let changes = known.compare(locks);
                let lines = changes.iter().map(|change| change.line(settings.json, &mut columns));
                write(lines.collect::<Result<String, Failure>>()?).await?;
            }
            Err(error) if error.is_retryable() => {
                if !is_away && settings.verbosity >= Verbosity::Warnings {
                    complain(&format!("{error}; still watching"));
                }
                is_away = true;
                sleep(LOOK).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A reader that does not read must not keep us from hearing a signal.
async fn write(text: String) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let written = tokio::task::spawn_blocking(move || answer(&text)).await;
    written.unwrap_or_else(|error| Err(Failure::new(Exit::Internal, error.to_string())))
}

/// The watched locks.
enum Subject<'a> {
    One(LockWatch),
    Many { admin: Admin, prefix: &'a str, is_first: bool },
}

impl Subject<'_> {
    /// The current state of the watched locks, after a possible change. Cancel safe.
    async fn look(&mut self) -> Result<Vec<LockInfo>, Error> {
        match self {
            Self::One(watch) => Ok(vec![watch.changed().await?]),
            Self::Many { admin, prefix, is_first } => {
                if !std::mem::take(is_first) {
                    sleep(LOOK).await;
                }
                admin.list(prefix, usize::MAX).await
            }
        }
    }
}

/// A claim in the line, as far as events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    id: String,
    owner: String,
    token: Option<String>,
    holds: bool,
}

/// The locks that could not be read at the last look.
#[derive(Debug, Default)]
struct Problems(BTreeSet<LockName>);

impl Problems {
    /// Once for each.
    fn print(&mut self, locks: &[LockInfo]) {
        let unreadable =
            || locks.iter().filter_map(|lock| Some((&lock.name, lock.problem.as_ref()?)));
        for (_, problem) in unreadable().filter(|(name, _)| !self.0.contains(*name)) {
            complain(&format!("{problem}; still watching the others"));
        }
        self.0 = unreadable().map(|(name, _)| name.clone()).collect();
    }
}

/// The locks at the last look.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, Vec<Claim>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Held,
    Free,
    Queued,
    Left,
}

#[derive(Debug, Serialize)]
struct Change {
    event: Event,
    time: String,
    lock: String,
    owner: String,
    token: Option<String>,
}

impl Known {
    /// The differences since the last look, lock by lock: claims that left, holders, and waiters.
    fn compare(&mut self, locks: Vec<LockInfo>) -> Vec<Change> {
        // If a line cannot be read, nobody knows which claims have left it.
        let claims = |info: &LockInfo| match info.problem {
            Some(_) => self.0.get(info.name.as_str()).cloned().unwrap_or_default(),
            None => claims(info),
        };
        let now = locks.iter().map(|info| (info.name.to_string(), claims(info))).collect();
        self.replace(now, Timestamp::now())
    }

    fn replace(&mut self, now: BTreeMap<String, Vec<Claim>>, time: Timestamp) -> Vec<Change> {
        let before = std::mem::replace(&mut self.0, now);
        let names = before.keys().chain(self.0.keys().filter(|name| !before.contains_key(*name)));
        let mut changes = Vec::new();
        for name in names {
            let [was, is] =
                [&before, &self.0].map(|locks| locks.get(name).map_or(&[][..], Vec::as_slice));
            changes.extend(difference(was, is).into_iter().map(|(event, claim)| Change {
                event,
                time: format!("{time:.3}"),
                lock: name.clone(),
                owner: claim.owner.clone(),
                token: claim.token.clone(),
            }));
        }
        changes.sort_by(|a, b| a.lock.cmp(&b.lock));
        changes
    }
}

fn claims(info: &LockInfo) -> Vec<Claim> {
    let holders = info.holders.iter().map(|holder| Claim {
        id: holder.id.to_string(),
        owner: holder.owner.clone(),
        token: holder.token.map(|token| token.to_string()),
        holds: true,
    });
    let waiters = info.waiters.iter().map(|waiter| Claim {
        id: waiter.id.to_string(),
        owner: waiter.owner.clone(),
        token: None,
        holds: false,
    });
    holders.chain(waiters).collect()
}

/// The events that lead from one line to the next. Every reported holder ends with one `left` or
/// `free`.
fn difference<'a>(was: &'a [Claim], is: &'a [Claim]) -> Vec<(Event, &'a Claim)> {
    let find = |line: &'a [Claim], claim: &Claim| line.iter().find(|other| other.id == claim.id);
    let gone = was.iter().filter(|claim| find(is, claim).is_none());
    let mut events: Vec<_> = gone.map(|claim| (Event::Left, claim)).collect();
    if !is.iter().any(|claim| claim.holds)
        && let Some(last) = events.iter_mut().rfind(|(_, claim)| claim.holds)
    {
        last.0 = Event::Free;
    }
    let held = is
        .iter()
        .filter(|claim| claim.holds && find(was, claim).is_none_or(|before| !before.holds));
    events.extend(held.map(|claim| (Event::Held, claim)));
    let queued = is.iter().filter(|claim| !claim.holds && find(was, claim).is_none());
    events.extend(queued.map(|claim| (Event::Queued, claim)));
    events
}

impl Change {
    fn line(&self, json: bool, columns: &mut Columns) -> Result<String, Failure> {
        if json {
            return json_line(self);
        }
        let (word, tone) = match self.event {
            Event::Held => ("held", Tone::Busy),
            Event::Free => ("free", Tone::Free),
            Event::Queued => ("queued", Tone::Plain),
            Event::Left => ("left", Tone::Plain),
        };
        let token = self.token.as_deref().unwrap_or("-");
        let cells = [
            (self.time.as_str(), Tone::Plain),
            (word, tone),
            (&printable(&self.lock), Tone::Plain),
            (token, Tone::Plain),
            (&printable(&self.owner), Tone::Plain),
        ];
        Ok(columns.line(&cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, holds: bool) -> Claim {
        Claim {
            id: id.into(),
            owner: format!("owner of {id}"),
            token: holds.then(|| "7".into()),
            holds,
        }
    }

    /// The events between lines of holders (upper case) and waiters.
    fn events(was: &str, is: &str) -> String {
        let line = |text: &str| -> Vec<Claim> {
            text.chars().map(|c| claim(&c.to_lowercase().to_string(), c.is_uppercase())).collect()
        };
        let (was, is) = (line(was), line(is));
        let printed = difference(&was, &is)
            .into_iter()
            .map(|(event, claim)| format!("{event:?} {}", claim.id));
        printed.collect::<Vec<_>>().join(", ").to_lowercase()
    }

    #[test]
    fn the_difference_of_two_lines_is_reported() {
        for (was, is, printed) in [
            ("", "", ""),
            ("A", "A", ""),
            ("", "A", "held a"),
            ("A", "", "free a"),
            ("A", "Ab", "queued b"),
            ("Ab", "A", "left b"),
            ("Ab", "B", "left a, held b"),
            ("Ab", "", "free a, left b"),
            ("Ab", "b", "free a"),
            ("AB", "B", "left a"),
            ("AB", "", "left a, free b"),
            ("A", "Bc", "left a, held b, queued c"),
            ("a", "", "left a"),
        ] {
            assert_eq!(events(was, is), printed, "{was} -> {is}");
        }
    }

    #[test]
    fn many_locks_are_reported_by_name_and_a_gone_lock_is_remembered() {
        let mut known = Known::default();
        let state = |names: &[&str]| {
            names.iter().map(|name| ((*name).to_owned(), vec![claim(name, true)])).collect()
        };
        let mut printed = |names: &[&str]| {
            let changes = known.replace(state(names), Timestamp::UNIX_EPOCH);
            changes
                .iter()
                .map(|change| format!("{:?} {}", change.event, change.lock))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(printed(&["b", "a"]), "Held a, Held b");
        assert_eq!(printed(&["c", "a"]), "Free b, Held c");
        assert_eq!(printed(&[]), "Free a, Free c");
    }

    #[test]
    fn a_change_is_one_line_with_the_fields_of_the_manual() {
        let mut known = Known::default();
        let state = BTreeMap::from([("a\u{1b}".to_owned(), vec![claim("x", true)])]);
        let changes = known.replace(state, "2026-11-21T06:00:00.12Z".parse().unwrap());
        let json = changes[0].line(true, &mut Columns::default()).unwrap();
        assert_eq!(
            json,
            "{\"event\":\"held\",\"time\":\"2026-11-21T06:00:00.120Z\",\"lock\":\"a\\u001b\",\"owner\":\"owner of x\",\
             \"token\":\"7\"}\n"
        );
        let text = changes[0].line(false, &mut Columns::default()).unwrap();
        assert_eq!(text, "2026-11-21T06:00:00.120Z  held  a\\u{1b}  7  owner of x\n");
    }
}
