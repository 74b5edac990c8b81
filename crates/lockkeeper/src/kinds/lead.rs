//! Leading for as long as there is work: candidacy, work, and candidacy again after a loss.

use std::time::Duration;

use super::election::Election;
use crate::guard::scoped;
use crate::random::jittered;
use crate::{Error, Leadership, Result};

/// How long a candidate rests after its first failure. Each further one doubles it.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long a candidate rests at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Work that only the leader does: see [`Election::lead`].
#[derive(Clone, Debug)]
#[must_use = "nobody stands for election before run is awaited"]
pub struct Lead {
    election: Election,
    value: Vec<u8>,
}

impl Lead {
    pub(super) fn new(election: Election, value: Vec<u8>) -> Self {
        Self { election, value }
    }

    /// Stands for election until it leads, does the work, resigns, and returns what came of the work.
    ///
    /// When the leadership is lost, the work is dropped at its next await, and the candidate stands for election again. So
    /// `work` may be called more than once. A candidacy that fails in a way that a later one may not
    /// ([`Error::is_retryable`]) is repeated after a rest of 100 ms, which doubles with each failure up to 10 s, and varies by
    /// chance. To hand the leadership over, for example because the program ends or because of a
    /// [request](Leadership::release_requested), `work` returns: the next candidate leads at once.
    ///
    /// In a task of its own (`tokio::spawn`) the closure is `async move`: the compiler takes one that borrows for no `Send`.
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
    ///         let _token = leadership.guard().token();
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
    /// The error of `work`. The error of a candidacy that is not [retryable](Error::is_retryable), such as
    /// [`Denied`](crate::ErrorKind::Denied), [`Invalid`](crate::ErrorKind::Invalid) or
    /// [`Closed`](crate::ErrorKind::Closed). [`Lost`](crate::ErrorKind::Lost) when the loss is found only as it resigns
    /// after the work.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`, and gives up the candidacy or the leadership in the background.
    pub async fn run<T, E: From<Error>>(
        self,
        mut work: impl AsyncFnMut(&mut Leadership) -> Result<T, E>,
    ) -> Result<T, E> {
        let engine = &self.election.lock.engine;
        let mut pause = PAUSE_MIN;
        loop {
            let mut leadership = match self.election.campaign(self.value.clone()).wait(Duration::MAX).await {
                Ok(leadership) => leadership,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(target: "lockkeeper", %error, "a candidacy failed, and is repeated");
                    engine.clock.sleep(jittered(pause)).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            pause = PAUSE_MIN;
            let hold = leadership.guard().hold().clone();
            let lost = leadership.guard().lost();
            let outcome = scoped(|| hold.check(), lost, work(&mut leadership)).await;
            if hold.is_dead() {
                // Its loss was told as an event.
                continue;
            }
            return crate::guard::covered(outcome, leadership.resign().await);
        }
    }
}
