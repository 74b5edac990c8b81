//! The election: one leader, which every client can find.

use std::sync::Arc;

use super::leadership::check_value;
use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::{Engine, LineObserver};
use crate::store::MAX;
use crate::{Acquired, Lead, Leader, Leadership, LockName, Observer, Result};

/// An election of one leader at a time. The leader shows a value to others, for example its name or
/// its address.
///
/// A candidacy is an exclusive claim. Candidates wait in the queue, and the next candidate leads
/// when the leader resigns or vanishes. Leadership is a lock, and has the limits of a lock: a
/// leader that was paused may learn of its loss too late, so its writes carry the
/// [token](crate::Guard::token) of its leadership.
///
/// An `Election` is cheap to clone. It is no candidate by itself.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let scheduler = keeper.election("scheduler")?;
/// let leadership = scheduler.campaign("10.0.0.7:8080").await?;
///
/// let leader = scheduler.leader().await?.expect("a leader");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// assert_eq!(leader.token, leadership.token());
/// leadership.resign().await?;
/// assert!(scheduler.leader().await?.is_none());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    pub(super) lock: Named,
}

impl Election {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lock: Named::new(engine, name) }
    }

    /// Waits in the queue as a candidate until it leads, without a limit unless [`Acquire::wait`]
    /// or the keeper sets one. Every client that asks for the leader sees the value of at most 64
    /// KiB.
    pub fn campaign(&self, value: impl Into<Vec<u8>>) -> Acquire<Leadership> {
        self.candidate(value.into(), self.lock.acquire(MAX, MAX))
    }

    /// Leads if the election has no leader, and returns `None` otherwise. The candidate joins the
    /// queue only with [`Acquire::wait`].
    pub fn try_campaign(&self, value: impl Into<Vec<u8>>) -> Acquire<Option<Leadership>> {
        self.candidate(value.into(), self.lock.try_acquire(MAX, MAX))
    }

    /// Work that only the leader does. A candidacy comes before the work, and another candidacy
    /// after each loss: see [`Lead::run`]. Every client that asks for the leader sees the value of
    /// at most 64 KiB.
    pub fn lead(&self, value: impl Into<Vec<u8>>) -> Lead {
        Lead::new(self.clone(), value.into())
    }

    /// Asks the store for the present leader; `None` when the election has no leader.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let engine = &self.lock.engine;
        engine.usable()?;
        Ok(Leader::of(&engine.line(&self.lock.name).await?))
    }

    /// Observes the leaders from now on. This call sends nothing to the store yet.
    pub fn observe(&self) -> Observer {
        Observer::new(LineObserver::of_holders(&self.lock.engine, self.lock.name.clone()))
    }

    fn candidate<G: Acquired>(&self, value: Vec<u8>, mut campaign: Acquire<G>) -> Acquire<G> {
        if let Err(problem) = check_value(&value) {
            campaign.refuse(problem);
        }
        campaign.request.value = Some(value.into());
        campaign
    }
}

settings!(Election);
