//! The election: one leader, whom everybody can find.

use std::sync::Arc;
use std::time::Duration;

use super::named::{Named, settings};
use crate::acquire::Acquire;
use crate::engine::{Engine, Lookout, mode};
use crate::store::{Line, MAX};
use crate::{Acquired, Error, FencingToken, Lead, Leadership, LockName, Mode, Observer, Result};

/// The longest value of a candidate, in bytes.
const VALUE_MAX: usize = 64 * 1024;

/// One leader at a time, with a value that shows others who it is or where it can be reached.
///
/// A candidacy is an exclusive claim: candidates stand in line, and the next one leads when the leader resigns or
/// vanishes. Leading is holding a lock, with all that this means: a leader that was stopped finds out too late, so what
/// it writes carries the [token](crate::Guard::token) of its leadership.
///
/// A handle is cheap to clone and is no candidate.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let scheduler = keeper.election("scheduler")?;
/// let leadership = scheduler.campaign("10.0.0.7:8080").await?;
///
/// let leader = scheduler.leader().await?.expect("somebody leads");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// assert_eq!(leader.token, leadership.guard().token());
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

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Leader {
    /// What it shows.
    #[serde(serialize_with = "crate::serial::lossy")]
    pub value: Vec<u8>,
    /// Who it is, as it says itself.
    pub owner: String,
    /// The token of its leadership.
    pub token: FencingToken,
    /// For how long it has led, where the store knows.
    #[serde(rename = "led_ms", serialize_with = "crate::serial::maybe_millis")]
    pub led: Option<Duration>,
}

impl Election {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        Self { lock: Named::new(engine, name) }
    }

    /// Stands in line as a candidate until it leads, for ever unless [`Acquire::wait`] says otherwise. The value, of
    /// at most 64 KiB, is shown to all who ask for the leader.
    pub fn campaign(&self, value: impl Into<Vec<u8>>) -> Acquire<Leadership> {
        self.candidate(value.into(), self.lock.acquire(MAX, MAX))
    }

    /// Leads if nobody else does, and answers `None` otherwise. Never stands in line unless [`Acquire::wait`] says so.
    pub fn try_campaign(&self, value: impl Into<Vec<u8>>) -> Acquire<Option<Leadership>> {
        self.candidate(value.into(), self.lock.try_acquire(MAX, MAX))
    }

    /// Work that only the leader does, with a candidacy before it, and another one after each loss: see [`Lead::run`]. The
    /// value, of at most 64 KiB, is shown to all who ask for the leader.
    pub fn lead(&self, value: impl Into<Vec<u8>>) -> Lead {
        Lead::new(self.clone(), value.into())
    }

    /// Who leads at this moment, by the store's word.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let engine = &self.lock.engine;
        engine.usable()?;
        Ok(Leader::of(&engine.line(&self.lock.name).await?))
    }

    /// Hears of every leader from now on. Nothing is asked of the store yet.
    pub fn observe(&self) -> Observer {
        Observer::new(Lookout::of_holders(&self.lock.engine, self.lock.name.clone()))
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

impl Leader {
    pub(super) fn of(line: &Line) -> Option<Self> {
        let first = line.entries.first().filter(|entry| entry.granted && !entry.kept)?;
        if mode(first.weight, line.capacity().unwrap_or(MAX)) != Mode::Exclusive {
            return None;
        }
        Some(Self {
            value: first.meta.value.as_deref().unwrap_or_default().to_vec(),
            owner: first.meta.owner.to_string(),
            token: FencingToken::new(first.meta.epoch, first.token?)?,
            led: first.age,
        })
    }
}

/// Whether this fits as the value of a candidate.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) when it is too long.
pub(super) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_MAX {
        return Ok(());
    }
    let problem = format!("the value of the candidate has {} bytes", value.len());
    Err(Error::invalid(problem).with_remedy(format!("at most {VALUE_MAX}")))
}
