//! The election: one leader, whom everybody can find.

use std::time::Duration;

use super::named;
use crate::blocking::park::wait;
use crate::blocking::{Attempt, Leadership, Observer};
use crate::{Leader, LockName, Result};

named! {
    /// One leader at a time, with a value that shows others who it is or where it can be reached: see
    /// [`Election`](crate::Election).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let leadership = scheduler.campaign("10.0.0.7:8080")?;
    /// assert_eq!(scheduler.leader()?.expect("somebody leads").value, b"10.0.0.7:8080");
    /// leadership.resign()?;
    /// assert!(scheduler.leader()?.is_none());
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    Election
}

impl Election {
    /// Stands in line as a candidate until it leads, for ever; [`attempt`](Self::attempt) sets a limit. The value, of
    /// at most 64 KiB, is shown to all who ask for the leader.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn campaign(&self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        self.attempt().campaign(value)
    }

    /// Leads if nobody else does, and answers `None` otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_campaign(&self, value: impl Into<Vec<u8>>) -> Result<Option<Leadership>> {
        self.attempt().try_campaign(value)
    }

    /// Who leads at this moment, by the store's word.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    pub fn leader(&self) -> Result<Option<Leader>> {
        wait(self.inner.leader())?
    }

    /// Hears of every leader from now on. Nothing is asked of the store yet.
    pub fn observe(&self) -> Observer {
        Observer::new(self.inner.observe())
    }
}

impl Attempt<'_, Election> {
    /// Stands in line as a candidate until it leads, for ever unless [`wait`](Self::wait) says otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn campaign(self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        let acquire = self.lock.inner.campaign(value);
        self.run(acquire).map(Leadership::new)
    }

    /// Leads if nobody else does, and answers `None` otherwise. Never stands in line unless [`wait`](Self::wait) says
    /// so.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_campaign(self, value: impl Into<Vec<u8>>) -> Result<Option<Leadership>> {
        let acquire = self.lock.inner.try_campaign(value);
        Ok(self.run(acquire)?.map(Leadership::new))
    }
}
