//! The election: one leader, whom everybody can find.

use std::time::Duration;

use super::named;
use crate::blocking::park::wait;
use crate::blocking::{Attempt, Leadership, Observer};
use crate::guard::covered;
use crate::kinds::{PAUSE_MAX, PAUSE_MIN};
use crate::random::jittered;
use crate::{Error, Leader, LockName, Result};

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

    /// Stands for election until it leads, runs `work`, resigns, and returns what came of the work: see
    /// [`Lead::run`](crate::Lead::run). A loss does not interrupt `work`, which looks at
    /// [`check`](crate::blocking::Guard::check) or returns; after a loss the candidate stands for election again, whatever
    /// `work` has returned.
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let token = scheduler.lead("10.0.0.7:8080", |leadership| {
    ///     leadership.guard().check()?;
    ///     Ok::<_, lockkeeper::Error>(leadership.guard().token())
    /// })?;
    /// assert!(scheduler.leader()?.is_none());
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Lead::run`](crate::Lead::run).
    pub fn lead<T, E: From<Error>>(
        &self,
        value: impl Into<Vec<u8>>,
        mut work: impl FnMut(&mut Leadership) -> Result<T, E>,
    ) -> Result<T, E> {
        let (value, mut pause) = (value.into(), PAUSE_MIN);
        loop {
            let mut leadership = match self.attempt().wait(Duration::MAX).campaign(value.clone()) {
                Ok(leadership) => leadership,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(target: "lockkeeper", %error, "a candidacy failed, and is repeated");
                    crate::time::pause(jittered(pause));
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            pause = PAUSE_MIN;
            let outcome = work(&mut leadership);
            if leadership.guard().check().is_ok() {
                return covered(outcome, leadership.resign());
            }
        }
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
