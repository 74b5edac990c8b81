//! Observing the leaders of an election.

use crate::engine::LineObserver;
use crate::{FencingToken, Leader, Result};

/// Reports the leaders of an election, from [`Election::observe`](crate::Election::observe).
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let scheduler = keeper.election("scheduler")?;
/// let mut observer = scheduler.observe();
/// assert!(observer.next().await?.is_none());
///
/// let leadership = scheduler.campaign("10.0.0.7:8080").await?;
/// let leader = observer.next().await?.expect("a leader");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// # leadership.resign().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Debug)]
pub struct Observer {
    observer: LineObserver,
    /// The last result: none yet, a vacancy, or a leader with its value.
    last: Option<Option<(FencingToken, Vec<u8>)>>,
    latest: Option<FencingToken>,
}

impl Observer {
    pub(super) fn new(observer: LineObserver) -> Self {
        Self { observer, last: None, latest: None }
    }

    /// Waits for the next change, and returns the leader, or `None` when the election has none. The
    /// first call returns at once. A later call returns when the leader has changed, or shows
    /// another value.
    ///
    /// The tokens never fall, and two calls in a row never return the same. The observer never
    /// misses the latest leader. It may miss a leadership or a vacancy that is shorter than the
    /// time between two looks at the store.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer. The call may
    /// be repeated.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped. The observer does not miss the latest leader.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            let leader = Leader::of(&self.observer.look().await?);
            let seen = leader.as_ref().map(|leader| (leader.token, leader.value.clone()));
            let token = leader.as_ref().map(|leader| leader.token);
            // A replica that lags behind may answer with an earlier leader.
            let is_old = token.is_some() && token < self.latest;
            if !is_old && self.last.as_ref() != Some(&seen) {
                self.latest = self.latest.max(token);
                self.last = Some(seen);
                return Ok(leader);
            }
        }
    }
}
