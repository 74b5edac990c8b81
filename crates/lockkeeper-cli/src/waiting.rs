//! What is told while a run waits in line: each place as an event, and to people at a terminal a line that stands
//! there for as long as they wait.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use lockkeeper::{Keeper, LockInfo, WaiterInfo};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Interval, interval_at};

use crate::duration::human;
use crate::event::{Place, Reporter};
use crate::lock;
use crate::output::printable;
use crate::settings::Settings;

/// How often the line on a terminal is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// Tells of one wait. It asks the store, and so is a future beside the wait rather than a part of it.
pub(crate) struct Narrator<'a> {
    keeper: &'a Keeper,
    reporter: &'a Reporter,
    places: &'a mut UnboundedReceiver<Place>,
    owner: &'a str,
    began: Instant,
    redraw: Interval,
    /// The lock that is waited for, as it was typed.
    lock: String,
    /// A place that nobody has heard of yet.
    untold: Option<Place>,
}

impl<'a> Narrator<'a> {
    pub(crate) fn new(
        keeper: &'a Keeper,
        reporter: &'a Reporter,
        places: &'a mut UnboundedReceiver<Place>,
        settings: &'a Settings,
        lock: &str,
        began: Instant,
    ) -> Self {
        let redraw = interval_at(Instant::now() + REDRAW, REDRAW);
        let (owner, lock) = (settings.owner.as_str(), lock.to_owned());
        Self { keeper, reporter, places, owner, began, redraw, lock, untold: None }
    }

    /// Tells until it is dropped.
    pub(crate) async fn narrate(&mut self) -> Infallible {
        loop {
            tokio::select! {
                biased;
                Some(place) = self.places.recv() => {
                    self.lock.clone_from(&place.lock);
                    self.untold = Some(place);
                    let info = lock::line(self.keeper, &self.lock).await;
                    let holder = info.as_ref().and_then(lock::first_holder);
                    if let Some(place) = self.untold.take() {
                        self.reporter.queued(&place, holder.as_deref());
                    }
                    self.draw(info.as_ref());
                }
                _ = self.redraw.tick(), if self.reporter.shows_status() => {
                    let info = lock::line(self.keeper, &self.lock).await;
                    self.draw(info.as_ref());
                }
                else => return pending().await,
            }
        }
    }

    /// What is left to tell at the end of the wait, whatever its outcome. Nothing is left on the terminal.
    pub(crate) fn finish(mut self) {
        if let Some(place) = self.untold.take() {
            self.reporter.queued(&place, None);
        }
        // A place in line that became the lock before anybody asked who was ahead.
        while let Ok(place) = self.places.try_recv() {
            self.reporter.queued(&place, None);
        }
        self.reporter.wipe_status();
    }

    fn draw(&self, info: Option<&LockInfo>) {
        let waited = self.began.elapsed();
        let Some(info) = info else {
            return self.reporter.show_status(&format!(
                "lockkeeper: lock {:?}: waiting for {}",
                self.lock,
                human(waited)
            ));
        };
        let ahead = ahead(info, self.owner, waited).map(|ahead| format!(", {ahead} ahead")).unwrap_or_default();
        let holder = lock::first_holder(info).map(|holder| format!("; held by {}", printable(&holder)));
        let holder = holder.unwrap_or_default();
        let text = format!("lockkeeper: lock {:?}: waiting for {}{ahead}{holder}", self.lock, human(waited));
        self.reporter.show_status(&text);
    }
}

/// How many stand before us, holders included. Whoever has our name and has waited for as long as we have is us.
fn ahead(info: &LockInfo, owner: &str, waited: Duration) -> Option<usize> {
    let distance = |waiter: &WaiterInfo| waiter.waited.map_or(Duration::MAX, |theirs| theirs.abs_diff(waited));
    let ours = info.waiters.iter().enumerate().filter(|(_, waiter)| waiter.owner == owner);
    let (place, _) = ours.min_by_key(|(_, waiter)| distance(waiter))?;
    Some(info.holders.len() + place)
}
