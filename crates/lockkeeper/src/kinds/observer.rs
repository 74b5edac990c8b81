//! Watching who leads.

use crate::engine::Lookout;
use crate::{FencingToken, Leader, Result};

/// Hears of every leader, from [`Election::observe`](crate::Election::observe).
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let scheduler = keeper.election("scheduler")?;
/// let mut observer = scheduler.observe();
/// assert!(observer.next().await?.is_none());
///
/// let leadership = scheduler.campaign("10.0.0.7:8080").await?;
/// let leader = observer.next().await?.expect("somebody leads");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// # leadership.resign().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Debug)]
pub struct Observer {
    lookout: Lookout,
    /// What the caller was told last: nothing, that nobody leads, or who does and what it shows.
    told: Option<Option<(FencingToken, Vec<u8>)>>,
    latest: Option<FencingToken>,
}

impl Observer {
    pub(super) fn new(lookout: Lookout) -> Self {
        Self { lookout, told: None, latest: None }
    }

    /// Who leads, `None` when nobody does: at once the first time, and then when that has changed, or the leader shows
    /// another value.
    ///
    /// Tokens never go back, and nothing is told twice in a row. The latest leader is never missed; a leadership, or a
    /// vacancy, that is shorter than one look may be.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer; it may be called again.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped; the latest leader is not missed.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            let leader = Leader::of(&self.lookout.look().await?);
            let seen = leader.as_ref().map(|leader| (leader.token, leader.value.clone()));
            let token = leader.as_ref().map(|leader| leader.token);
            // A look at a replica that lags behind may show who led before.
            let is_old = token.is_some() && token < self.latest;
            if !is_old && self.told.as_ref() != Some(&seen) {
                self.latest = self.latest.max(token);
                self.told = Some(seen);
                return Ok(leader);
            }
        }
    }
}
