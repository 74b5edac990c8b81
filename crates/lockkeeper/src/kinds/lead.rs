//! Leadership until the work is done: candidacy, work, and another candidacy after each loss.

use std::time::Duration;

use super::election::Election;
use crate::guard::scoped;
use crate::{Error, Leadership, Result};
use lockkeeper_core::kit::Backoff;

/// How long a candidate rests after its first failure. Each further failure doubles it.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long a candidate rests at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Work that only the leader does: see [`Election::lead`].
#[derive(Clone, Debug)]
#[must_use = "the candidacy does not begin before run is awaited"]
pub struct Lead {
    election: Election,
    value: Vec<u8>,
}

impl Lead {
    pub(super) fn new(election: Election, value: Vec<u8>) -> Self {
        Self { election, value }
    }

    /// Campaigns until it leads, runs `work`, resigns, and returns the result of `work`.
    ///
    /// A loss of the leadership drops the work at its next await, and the candidate campaigns
    /// again. So `work` may be called more than once. Work that has succeeded is not repeated: if
    /// the leadership was lost meanwhile, the result is the loss. A candidacy that fails with a
    /// [retryable](Error::is_retryable) error is repeated after a back-off of 100 ms. The back-off
    /// doubles with each failure up to 10 s, and varies at random. To hand the leadership over, for
    /// example at the end of the program or on a [request](Leadership::release_requested), let
    /// `work` return: the next candidate leads at once.
    ///
    /// In a task of its own (`tokio::spawn`) the closure must be `async move`: for the compiler, a
    /// closure that borrows is not `Send`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let jobs = keeper.election("scheduler")?.lead("10.0.0.7:8080").run(async |leadership| {
    ///     let mut jobs = 0;
    ///     while jobs < 3 {
    ///         // one job, whose writes carry the token
    ///         let _token = leadership.token();
    ///         tokio::time::sleep(Duration::from_millis(1)).await;
    ///         jobs += 1;
    ///     }
    ///     Ok::<_, lockkeeper::Error>(jobs)
    /// });
    /// assert_eq!(jobs.await?, 3);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The error of `work`, unless the leadership is lost by then. The error of a candidacy that is
    /// not [retryable](Error::is_retryable), such as [`Denied`](crate::ErrorKind::Denied),
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`Closed`](crate::ErrorKind::Closed).
    /// [`Lost`](crate::ErrorKind::Lost) when the work has succeeded, but the leadership was lost
    /// before it was resigned.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`, and gives up the candidacy or the leadership in the
    /// background.
    pub async fn run<T, E: From<Error>>(
        self,
        mut work: impl AsyncFnMut(&mut Leadership) -> Result<T, E>,
    ) -> Result<T, E> {
        let engine = &self.election.lock.engine;
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        loop {
            let mut leadership = match self
                .election
                .campaign(self.value.clone())
                .wait(Duration::MAX)
                .await
            {
                Ok(leadership) => leadership,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(target: "lockkeeper", %error, "a candidacy failed, and is repeated");
                    engine.clock.sleep(backoff.pause()).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            backoff.reset();
            let hold = leadership.guard().hold().clone();
            let lost = leadership.lost();
            let mut is_done = false;
            let work = async {
                let outcome = work(&mut leadership).await;
                is_done = outcome.is_ok();
                outcome
            };
            let outcome = scoped(|| hold.check(), lost, work).await;
            // Work that has succeeded is not repeated. An error may be the loss itself, which is an
            // event already.
            if hold.is_dead() && !is_done {
                continue;
            }
            return crate::guard::covered(outcome, leadership.resign().await);
        }
    }
}
