//! The election: one leader, which every client can find.

use std::time::Duration;

use super::named;
use crate::blocking::park::wait;
use crate::blocking::{Attempt, Leadership, Observer};
use crate::guard::covered;
use crate::kinds::{PAUSE_MAX, PAUSE_MIN};
use crate::random::jittered;
use crate::{Error, Leader, LockName, Result};

named! {
    /// An election of one leader at a time. The leader shows a value to others, for example its name or its address.
    /// See [`Election`](crate::Election).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let leadership = scheduler.campaign("10.0.0.7:8080")?;
    /// assert_eq!(scheduler.leader()?.expect("a leader").value, b"10.0.0.7:8080");
    /// leadership.resign()?;
    /// assert!(scheduler.leader()?.is_none());
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    Election
}

impl Election {
    /// Waits in the queue as a candidate until it leads, without a limit unless [`attempt`](Self::attempt) or the
    /// keeper sets one. Every client that asks for the leader sees the value of at most 64 KiB.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn campaign(&self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        self.attempt().campaign(value)
    }

    /// Leads if the election has no leader, and returns `None` otherwise.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_campaign(&self, value: impl Into<Vec<u8>>) -> Result<Option<Leadership>> {
        self.attempt().try_campaign(value)
    }

    /// Campaigns until it leads, runs `work`, resigns, and returns the result of `work`: see
    /// [`Lead::run`](crate::Lead::run). A loss does not interrupt `work`, so long work has to call
    /// [`check`](crate::blocking::Guard::check) now and then. After a loss the candidate campaigns again, whatever
    /// `work` has returned.
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let scheduler = keeper.election("scheduler")?;
    /// let token = scheduler.lead("10.0.0.7:8080", |leadership| {
    ///     leadership.check()?;
    ///     Ok::<_, lockkeeper::Error>(leadership.token())
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
            if leadership.check().is_ok() {
                return covered(outcome, leadership.resign());
            }
        }
    }

    /// Asks the store for the present leader; `None` when the election has no leader.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    pub fn leader(&self) -> Result<Option<Leader>> {
        wait(self.inner.leader())?
    }

    /// Observes the leaders from now on. This call sends nothing to the store yet.
    pub fn observe(&self) -> Observer {
        Observer::new(self.inner.observe())
    }
}

impl Attempt<'_, Election> {
    /// Waits in the queue as a candidate until it leads, without a limit unless [`wait`](Self::wait) or the keeper sets
    /// one.
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn campaign(self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        let acquire = self.lock.inner.campaign(value);
        self.run(acquire).map(Leadership::new)
    }

    /// Leads if the election has no leader, and returns `None` otherwise. The candidate joins the queue only with
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`Acquire`](crate::Acquire).
    pub fn try_campaign(self, value: impl Into<Vec<u8>>) -> Result<Option<Leadership>> {
        let acquire = self.lock.inner.try_campaign(value);
        Ok(self.run(acquire)?.map(Leadership::new))
    }
}
