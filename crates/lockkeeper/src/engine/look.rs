//! Looks at the store, for users, and for holders whose locks were broken.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{LOOK, LOOK_AGAIN};
use super::{Engine, Hold};
use crate::info::LockInfo;
use crate::runtime::inside;
use crate::store::{Expiry, Interest, Line, Revision, Wakes};
use crate::{LockName, Result, random};

/// An observer of a line. It looks again and again.
#[derive(Debug)]
pub(crate) struct LineObserver {
    engine: Arc<Engine>,
    pub(crate) name: LockName,
    seen: Option<(Revision, Duration)>,
    /// The observer ignores the waiters.
    only_holders: bool,
}

impl LineObserver {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { engine: Arc::clone(engine), name, seen: None, only_holders: false }
    }

    /// An observer of the holders: the end of a waiter is no reason to look.
    pub(crate) fn of_holders(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { only_holders: true, ..Self::new(engine, name) }
    }

    /// The contents of this line, for users.
    pub(crate) fn info(&self, line: Line) -> LockInfo {
        LockInfo::new(self.engine.settings.full_name(&self.name), self.name.clone(), line)
    }

    /// The line: at once the first time, and then when the store reports a change or time has
    /// passed. It only reads, and may be dropped.
    pub(crate) async fn look(&mut self) -> Result<Line> {
        self.engine.usable()?;
        let line = match self.seen {
            Some((seen, within)) => self.engine.line_after(&self.name, seen, within).await?,
            None => self.engine.line(&self.name).await?,
        };
        let capabilities = self.engine.store.capabilities();
        let pushes = capabilities.wake == Wakes::Push && capabilities.expiry == Expiry::PerClaim;
        self.seen = Some((
            line.revision,
            if pushes { next_look_in(&line, self.only_holders) } else { LOOK },
        ));
        Ok(line)
    }
}

/// How long to wait for a push before the next look: until the first holder or waiter may be dead.
/// All observers look at that time, so their looks are spread over the following second.
fn next_look_in(line: &Line, only_holders: bool) -> Duration {
    let minded = line.entries.iter().filter(|entry| entry.granted || !only_holders);
    let ends = minded.map(|entry| entry.expires_in).collect::<Option<Vec<_>>>();
    let Some(ends) = ends else { return LOOK };
    let first = ends.into_iter().min().map_or(LOOK_AGAIN, |first| first.min(LOOK_AGAIN));
    let spread = (first / 10 + Duration::from_millis(10)).min(LOOK);
    first
        + Duration::from_nanos(random::below(u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX)))
}

impl Engine {
    /// Completes when others may have the lock of this claim. It only reads, and may be dropped.
    pub(crate) async fn given_away(self: &Arc<Self>, hold: &Arc<Hold>) {
        let sees = async {
            let (engine, lost) = (Arc::clone(self), Arc::clone(hold));
            self.runtime.look(Box::pin(async move { engine.see_given_away(&lost).await })).await
        };
        tokio::select! {
            biased;
            () = hold.given_away() => {}
            // A runtime that has ended neither looks nor renews.
            _ = inside(&self.runtime, sees) => {}
        }
    }

    /// Looks whether the store still keeps a broken lock, or a lock at the end of its `max_hold`,
    /// for its holder. Not every store reports the removal, and no renewal asks for it.
    async fn see_given_away(self: &Arc<Self>, hold: &Hold) -> Result<()> {
        hold.lost().await;
        let mut observer = LineObserver::of_holders(self, hold.key.name.clone());
        let id = hold.key.id.hash();
        while !hold.is_given_away() {
            match observer.look().await {
                Ok(line) if line.entries.iter().any(|entry| entry.id == id) => {}
                Ok(_) => hold.give_away(),
                Err(error) => {
                    self.usable()?;
                    tracing::debug!(target: "lockkeeper", %error, "nobody knows whether a broken lock was given away");
                    self.clock.sleep(LOOK).await;
                }
            }
        }
        Ok(())
    }

    /// The line of this lock. It only reads, and may be dropped.
    pub(crate) async fn line(&self, name: &LockName) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.store), name.clone());
        let line = self.runtime.look(Box::pin(async move { store.line(&of).await })).await;
        line.map_err(|error| self.describe(error, name))
    }

    /// The line of a lock with this full name, inside or outside this keeper's prefix. It only
    /// reads, and may be dropped.
    pub(crate) async fn line_of_full(&self, full: &LockName) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.whole), full.clone());
        let line = self.runtime.look(Box::pin(async move { store.line(&of).await })).await;
        line.map_err(|error| {
            let error = error.at(&self.store.to_string()).within(&self.settings.prefix);
            match self.settings.short_name(full) {
                Some(name) => error.about(name),
                None => error,
            }
        })
    }

    /// The line, once the store reports a change since `seen`, or `within` is over. It only reads,
    /// and may be dropped.
    async fn line_after(&self, name: &LockName, seen: Revision, within: Duration) -> Result<Line> {
        let (store, of) = (Arc::clone(&self.store), name.clone());
        let look = async move {
            store.wait(Interest::Name(&of), seen, within).await?;
            store.line(&of).await
        };
        self.runtime.look(Box::pin(look)).await.map_err(|error| self.describe(error, name))
    }

    /// The lines whose names begin with this prefix. It only reads, and may be dropped.
    pub(crate) async fn lines(
        &self,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let store = Arc::clone(&self.store);
        let ask = async move {
            let Some(admin) = store.admin() else { return Ok(Vec::new()) };
            admin.lines(&prefix, None, limit).await
        };
        let lines = self
            .runtime
            .look(Box::pin(ask))
            .await
            .map_err(|error| error.at(&self.store.to_string()))?;
        let described = lines.into_iter().map(|(name, line)| {
            let line = line.map_err(|error| self.describe(error, &name));
            (name, line)
        });
        Ok(described.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ClaimId, Entry, MAX, Meta};

    fn line(ends: &[Option<u64>]) -> Line {
        let entry = |end: &Option<u64>| Entry {
            id: ClaimId::random().hash(),
            weight: MAX,
            capacity: MAX,
            granted: true,
            kept: false,
            token: Some(1),
            meta: Meta::default(),
            age: None,
            expires_in: end.map(Duration::from_millis),
            broken: None,
        };
        let entries = ends.iter().map(entry).collect();
        Line { revision: Revision(1), last_token: Some(1), entries }
    }

    #[test]
    fn the_next_look_is_within_a_second_of_the_first_possible_death() {
        let between = |ends: &[Option<u64>], least: u64, most: u64| {
            let next = next_look_in(&line(ends), false);
            assert!(
                next >= Duration::from_millis(least) && next <= Duration::from_millis(most),
                "{next:?}"
            );
        };
        between(&[Some(5000), Some(2000)], 2000, 2210);
        between(&[Some(0)], 0, 10);
        between(&[Some(60_000)], 20_000, 21_000);
        between(&[], 20_000, 21_000);
        between(&[Some(5000), None], 1000, 1000);
    }

    #[test]
    fn a_waiters_end_is_no_reason_to_look_for_observers_of_holders() {
        let mut line = line(&[Some(15_000), Some(3000)]);
        line.entries[1].granted = false;
        assert!(next_look_in(&line, true) >= Duration::from_secs(15));
        assert!(next_look_in(&line, false) < Duration::from_secs(4));
    }
}
