//! One of the measured tasks, and the results of all tasks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use lockkeeper::{Error, Mutex as Lock};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Times from 1 ns to ten minutes, to three digits.
type Times = Histogram<u64>;

/// The results of all tasks.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) acquire: Option<Times>,
    pub(super) release: Option<Times>,
    pub(super) handoff: Option<Times>,
    /// How many pairs each task made.
    pub(super) pairs: Vec<u64>,
}

/// When a lock was let go last, and by which task.
#[derive(Debug, Default)]
pub(super) struct LetGo(Mutex<Option<(Instant, usize)>>);

/// One task and its lock.
pub(super) struct Task {
    pub(super) number: usize,
    pub(super) lock: Lock,
    pub(super) let_go: Arc<LetGo>,
    pub(super) hold: Duration,
}

/// The results of one task.
#[derive(Debug)]
pub(super) struct Own {
    number: usize,
    acquire: Times,
    release: Times,
    handoff: Times,
}

impl LetGo {
    fn latest(&self) -> MutexGuard<'_, Option<(Instant, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Takes the lock and releases it until the stop. A waiter then leaves the queue.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) -> Result<Own, Error> {
        let mut own =
            Own { number: self.number, acquire: times(), release: times(), handoff: times() };
        while !*stop.borrow_and_update() {
            let asked = Instant::now();
            let guard = tokio::select! {
                biased;
                _ = stop.changed() => break,
                guard = self.lock.lock() => guard?,
            };
            let granted = Instant::now();
            own.acquire.saturating_record(nanos(granted - asked));
            let latest = *self.let_go.latest();
            // Only a release of another task during our wait was handed to us.
            if let Some((at, by)) = latest
                && at > asked
                && by != self.number
            {
                own.handoff.saturating_record(nanos(granted.saturating_duration_since(at)));
            }
            tokio::select! {
                biased;
                _ = stop.changed() => {}
                () = self.hold() => {}
            }
            let released = Instant::now();
            *self.let_go.latest() = Some((released, self.number));
            guard.release().await?;
            own.release.saturating_record(nanos(released.elapsed()));
        }
        Ok(own)
    }

    /// Yields even without a time to hold the lock: otherwise the other tasks would not reach the
    /// queue of a store that always answers at once.
    async fn hold(&self) {
        if self.hold.is_zero() {
            tokio::task::yield_now().await;
        } else {
            sleep(self.hold).await;
        }
    }
}

impl Measured {
    pub(super) fn of(tasks: usize) -> Self {
        Self { pairs: vec![0; tasks], ..Self::default() }
    }

    pub(super) fn add(&mut self, own: Own) {
        if let Some(pairs) = self.pairs.get_mut(own.number) {
            *pairs = own.release.len();
        }
        for (sum, part) in [
            (&mut self.acquire, own.acquire),
            (&mut self.release, own.release),
            (&mut self.handoff, own.handoff),
        ] {
            // All have the same bounds, so that one always fits into the other.
            let _ = sum.get_or_insert_with(times).add(part);
        }
    }

    /// How many pairs there were.
    pub(super) fn total(&self) -> u64 {
        self.pairs.iter().sum()
    }

    /// Jain's index of the pairs of each task: 1 when all had the same, 1/n when one had all.
    pub(super) fn fairness(&self) -> Option<f64> {
        let squares: f64 = self.pairs.iter().map(|&pairs| float(pairs).powi(2)).sum();
        (squares > 0.0)
            .then(|| float(self.total()).powi(2) / (float(self.pairs.len() as u64) * squares))
    }
}

fn times() -> Times {
    #[allow(clippy::expect_used, reason = "the bounds are constants that it takes")]
    Histogram::new_with_bounds(1, 600_000_000_000, 3)
        .expect("1 is at least 1, and less than half of the other")
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts are far below 2^52.
#[allow(clippy::cast_precision_loss, reason = "counts of what happened within a day")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fairness(pairs: &[u64]) -> Option<f64> {
        Measured { pairs: pairs.to_vec(), ..Measured::default() }.fairness()
    }

    #[test]
    fn fairness_is_one_for_equals_and_small_for_one_who_has_all() {
        assert_eq!(fairness(&[5, 5, 5]), Some(1.0));
        assert_eq!(fairness(&[8, 0, 0, 0]), Some(0.25));
        assert_eq!(fairness(&[0, 0]), None);
    }

    #[test]
    fn what_tasks_measure_adds_up() {
        let mut all = Measured::of(2);
        for (number, nanos) in [(0, 1_000), (1, 3_000)] {
            let mut own = Own { number, acquire: times(), release: times(), handoff: times() };
            own.acquire.record(nanos).unwrap();
            own.release.record(nanos).unwrap();
            all.add(own);
        }
        assert_eq!((all.total(), all.pairs.as_slice()), (2, &[1, 1][..]));
        let acquire = all.acquire.unwrap();
        assert_eq!((acquire.len(), acquire.max() / 1_000), (2, 3));
        assert!(all.handoff.unwrap().is_empty());
    }
}
