//! The reports of a run that waits in the queue: each place as an event; for people at a terminal a
//! line for the time of the wait; for others a line now and then.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use lockkeeper::{HolderInfo, IdHash, Keeper, LockInfo, WaiterInfo};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Interval, interval_at};

use crate::duration::human;
use crate::event::{QueuePosition, Reporter};
use crate::lock;
use crate::output::printable;

/// How often the line on a terminal is redrawn.
const REDRAW: Duration = Duration::from_secs(1);
/// How often a wait without a terminal asks for the holder of the lock; a new place in the queue
/// triggers this too.
const LOOK: Duration = Duration::from_secs(5);
/// A wait without a terminal speaks again after this, also if the holder is the same.
const SILENCE: Duration = Duration::from_secs(60);

/// How a wait is shown to people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Without lines: `-E 0` says that a busy lock is fine.
    pub(crate) is_silent: bool,
    /// Again and again, and not only when the holder changes. A candidate of an election may wait
    /// for weeks.
    pub(crate) repeats: bool,
}

/// Reports one wait. It asks the store, so it is a future beside the wait rather than a part of it.
pub(crate) struct WaitReporter<'a> {
    keeper: &'a Keeper,
    reporter: &'a Reporter,
    positions: &'a mut UnboundedReceiver<QueuePosition>,
    owner: &'a str,
    manner: Manner,
    began: Instant,
    looks: Interval,
    /// The lock of the wait, as typed.
    lock: String,
    /// A place that was not reported yet.
    untold: Option<QueuePosition>,
    said: Said,
}

impl<'a> WaitReporter<'a> {
    /// `lock` is the name that is waited for first.
    pub(crate) fn new(
        keeper: &'a Keeper,
        reporter: &'a Reporter,
        positions: &'a mut UnboundedReceiver<QueuePosition>,
        owner: &'a str,
        lock: &str,
        manner: Manner,
    ) -> Self {
        let period = if reporter.shows_status() { REDRAW } else { LOOK };
        let (began, said) = (Instant::now(), Said::default());
        let (looks, lock) = (interval_at(began + period, period), lock.to_owned());
        Self { keeper, reporter, positions, owner, manner, began, looks, lock, untold: None, said }
    }

    /// The same for a wait that began before.
    pub(crate) fn since(self, began: Instant) -> Self {
        Self { began, ..self }
    }

    /// Reports until it is dropped.
    pub(crate) async fn run(&mut self) -> Infallible {
        let speaks = self.speaks();
        loop {
            tokio::select! {
                biased;
                Some(position) = self.positions.recv() => {
                    self.lock.clone_from(&position.lock);
                    let ahead = position.ahead;
                    self.untold = Some(position);
                    let info = lock::line(self.keeper, &self.lock).await;
                    let holder = info.as_ref().and_then(lock::first_holder);
                    if let Some(position) = self.untold.take() {
                        self.reporter.queued(&position, holder.as_deref());
                    }
                    self.report(info.as_ref(), Some(ahead));
                }
                _ = self.looks.tick(), if speaks => {
                    let info = lock::line(self.keeper, &self.lock).await;
                    self.report(info.as_ref(), None);
                }
                else => return pending().await,
            }
        }
    }

    /// Reports the rest at the end of the wait, whatever its outcome. The terminal keeps no trace.
    pub(crate) fn finish(mut self) {
        // A place in the queue that became the lock before the claims ahead were known.
        while let Some(position) = self.untold.take().or_else(|| self.positions.try_recv().ok()) {
            self.reporter.queued(&position, None);
            if self.reporter.is_verbose() && self.speaks() {
                self.reporter
                    .warn(&format!("lock {:?}: waiting, {} ahead", position.lock, position.ahead));
            }
        }
        self.reporter.wipe_status();
    }

    /// Returns whether people see anything of the wait.
    fn speaks(&self) -> bool {
        self.reporter.shows_status() || self.reporter.prints() && !self.manner.is_silent
    }

    /// `position` is a new place in line.
    fn report(&mut self, info: Option<&LockInfo>, position: Option<u32>) {
        if self.reporter.shows_status() {
            return self.draw(info);
        }
        if !self.speaks() {
            return;
        }
        let (holder, now) =
            (info.map(|info| info.holders.first().map(|holder| holder.id)), Instant::now());
        let is_asked = position.is_some() && self.reporter.is_verbose();
        if self.said.is_due(&self.lock, holder, now, self.manner.repeats) || is_asked {
            self.said.now(&self.lock, holder, now);
            let ahead = position.or_else(|| ahead(info?, self.owner, self.began.elapsed()));
            let ahead = ahead.map(|ahead| format!(", {ahead} ahead")).unwrap_or_default();
            let holder = info.map(in_the_way).unwrap_or_default();
            self.reporter.warn(&format!("lock {:?}: waiting{ahead}{holder}", self.lock));
        }
    }

    fn draw(&self, info: Option<&LockInfo>) {
        let waited = self.began.elapsed();
        let ahead = info.and_then(|info| ahead(info, self.owner, waited));
        let ahead = ahead.map(|ahead| format!(", {ahead} ahead")).unwrap_or_default();
        // Between two holders, the lock may have none for a moment. That is no news.
        let held = info.filter(|info| !info.holders.is_empty());
        let holder = held.map(in_the_way).unwrap_or_default();
        let text = format!(
            "lockkeeper: lock {:?}: waiting for {}{ahead}{holder}",
            self.lock,
            human(waited)
        );
        self.reporter.show_status(&text);
    }
}

/// The last message of a wait without a terminal.
#[derive(Debug, Default)]
struct Said(Option<(String, Option<IdHash>, Instant)>);

impl Said {
    /// Returns whether a message is due. `holder` is the holder of the lock, or unknown.
    fn is_due(
        &self,
        lock: &str,
        holder: Option<Option<IdHash>>,
        now: Instant,
        repeats: bool,
    ) -> bool {
        let Some((printed, before, at)) = &self.0 else { return true };
        // Between two holders, the lock may have none for a moment. That is no news.
        let is_another = holder.flatten().is_some_and(|holder| Some(holder) != *before);
        printed != lock || is_another || repeats && now.duration_since(*at) >= SILENCE
    }

    fn now(&mut self, lock: &str, holder: Option<Option<IdHash>>, now: Instant) {
        let before =
            self.0.take().filter(|(printed, ..)| printed == lock).and_then(|(_, holder, _)| holder);
        self.0 = Some((lock.to_owned(), holder.flatten().or(before), now));
    }
}

/// The end of a sentence: the holder of a lock, for how long and why; or that the store keeps the
/// lock; or the waiters.
pub(crate) fn in_the_way(info: &LockInfo) -> String {
    let more =
        |others: usize| if others > 0 { format!(", and {others} more") } else { String::new() };
    match (holds(info), info.holders.first(), info.waiters.first()) {
        (Some(first), ..) => format!(
            "; held by {}{}{}",
            described(first),
            more(info.holders.len() - 1),
            permits(info)
        ),
        (None, Some(kept), _) => format!("; nobody holds it, and it is kept{}", rest(kept)),
        (None, None, Some(waiter)) => {
            format!("; nobody holds it, and {} is first in the queue", printable(&waiter.owner))
        }
        (None, None, None) => String::new(),
    }
}

/// The id of a first holder that no wait outlasts: the key of another program has no ttl.
pub(crate) fn endless(info: &LockInfo) -> Option<String> {
    let first = holds(info)?;
    (first.token.is_none() && first.expires_in.is_none()).then(|| first.id.to_string())
}

/// The number of taken permits, and the capacity: another holder may have named fewer permits than
/// this claim.
fn permits(info: &LockInfo) -> String {
    let taken: u64 = info.holders.iter().map(|holder| u64::from(holder.weight)).sum();
    info.capacity.map_or_else(String::new, |of| format!("; {taken} of {of} permits are taken"))
}

/// The first holder that has neither released the lock nor ended.
fn holds(info: &LockInfo) -> Option<&HolderInfo> {
    info.holders.iter().find(|holder| !holder.kept)
}

fn described(holder: &HolderInfo) -> String {
    let held = holder.held.map(|held| format!(" for {}", human(held))).unwrap_or_default();
    let reason = holder
        .reason
        .as_ref()
        .map(|reason| format!(" ({})", printable(reason)))
        .unwrap_or_default();
    format!("{}{held}{reason}", printable(&holder.owner))
}

/// How long a minimum hold still keeps the lock, and the last holder.
fn rest(kept: &HolderInfo) -> String {
    let rest =
        kept.expires_in.map(|rest| format!(" for another {}", human(rest))).unwrap_or_default();
    format!("{rest} after its last holder, {}", printable(&kept.owner))
}

/// The number of claims ahead of ours, holders included. The claim with our owner that has waited
/// for as long as we have is ours.
fn ahead(info: &LockInfo, owner: &str, waited: Duration) -> Option<u32> {
    let distance =
        |waiter: &WaiterInfo| waiter.waited.map_or(Duration::MAX, |theirs| theirs.abs_diff(waited));
    let ours = info.waiters.iter().enumerate().filter(|(_, waiter)| waiter.owner == owner);
    let (position, _) = ours.min_by_key(|(_, waiter)| distance(waiter))?;
    u32::try_from(info.holders.len() + position).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> Option<Option<IdHash>> {
        Some(Some(digit.to_string().repeat(16).parse().unwrap()))
    }

    #[test]
    fn a_wait_reports_its_start_another_holder_and_each_minute() {
        let (start, mut said) = (Instant::now(), Said::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(said.is_due("a", id('1'), at(0), true));
        said.now("a", id('1'), at(0));
        for (holder, seconds, due) in [
            (id('1'), 59, false),
            (id('1'), 60, true),
            (id('2'), 1, true),
            // Between two holders, and where the store did not say.
            (Some(None), 1, false),
            (None, 1, false),
            (None, 61, true),
        ] {
            assert_eq!(said.is_due("a", holder, at(seconds), true), due, "{holder:?} {seconds}");
        }
        // The second of two locks that are waited for in turn.
        assert!(said.is_due("b", id('1'), at(1), true));
        said.now("a", None, at(61));
        assert!(!said.is_due("a", id('1'), at(62), true));
    }

    #[test]
    fn a_candidate_speaks_only_of_another_holder() {
        let (start, mut said) = (Instant::now(), Said::default());
        said.now("a", id('1'), start);
        assert!(!said.is_due("a", id('1'), start + 100 * SILENCE, false));
        assert!(said.is_due("a", id('2'), start, false));
    }
}
