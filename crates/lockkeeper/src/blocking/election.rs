//! The election of one leader.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::guard::{Guard, scoped};
use super::lost::{Lost, ReleaseRequested};
use super::mirror::{Mirrored, mirror, ways, wrappers};
use super::park::{wait, wait_for};
use crate::guard::covered;
use crate::kinds::{PAUSE_MAX, PAUSE_MIN, proclaim};
use crate::{Error, FencingToken, Leader, Result};
use lockkeeper_core::kit::Backoff;

wrappers! {
    /// An election of one leader at a time. The leader shows a value to others, for example its
    /// name or its address. See [`Election`](crate::Election).
    #[derive(Clone, Debug)]
    Election;

    /// Reports the leaders of an election, from [`Election::observe`].
    #[derive(Debug)]
    Observer;
}

ways! {
    Election {
        /// Waits in the queue as a candidate until it leads, without a limit unless the attempt or
        /// the keeper sets one. Every client that asks for the leader sees the value of at most 64
        /// KiB.
        wrap campaign(value: impl Into<Vec<u8>>) -> Leadership;
        /// Leads if the election has no leader, and returns `None` otherwise.
        wrap try_campaign(value: impl Into<Vec<u8>>) -> Option<Leadership>;
    }
}

impl Election {
    mirror! { Election:
        /// Asks the store for the present leader; `None` when the election has no leader.
        wait fn leader(&self) -> Result<Option<Leader>>;
        /// Observes the leaders from now on. This call sends nothing to the store yet.
        wrap fn observe(&self) -> Observer;
    }

    /// Campaigns until it leads, runs `work`, resigns, and returns the result of `work`: see
    /// [`Lead::run`](crate::Lead::run). A loss does not interrupt `work`, so long work has to call
    /// [`check`](Guard::check) now and then. After a loss the candidate campaigns again, whatever
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
        let (value, mut backoff) = (value.into(), Backoff::new(PAUSE_MIN, PAUSE_MAX));
        loop {
            let mut leadership = match self.attempt().wait(Duration::MAX).campaign(value.clone()) {
                Ok(leadership) => leadership,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(target: "lockkeeper", %error, "a candidacy failed, and is repeated");
                    crate::time::pause(backoff.pause());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            backoff.reset();
            let outcome = work(&mut leadership);
            if leadership.check().is_ok() {
                return covered(outcome, leadership.resign());
            }
        }
    }
}

impl Observer {
    mirror! { Observer:
        /// Waits for the next change, and returns the leader, or `None` when the election has none.
        /// The first call returns at once.
        #[allow(clippy::should_implement_trait, reason = "a vacancy is an item, and not the end")]
        wait fn next(&mut self) -> Result<Option<Leader>>;
    }

    /// As [`next`](Self::next), for at most `d`. `Some(None)` is a vacancy, and `None` means that
    /// nothing has changed.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_timeout(&mut self, d: Duration) -> Result<Option<Option<Leader>>> {
        wait_for(d, self.inner.next())?.transpose()
    }
}

/// A leadership of an [`Election`](super::Election). Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "if unused, the leadership is given up at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    guard: Guard,
}

impl Mirrored for crate::Leadership {
    type Here = Leadership;

    fn here(self) -> Leadership {
        Leadership { guard: self.into_guard().here() }
    }
}

impl Leadership {
    /// The guard of its lock, with the token, the loss and [`scope`](Guard::scope).
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The fencing token of this leadership: see [`Guard::token`].
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Whether this candidate still leads, as far as this process can know, without I/O.
    ///
    /// # Errors
    /// As [`Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// A value with which another thread waits until the leadership is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// A value with which another thread waits until an operator asks the leader to resign.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.guard.release_requested()
    }

    /// Shows another value from now on, of at most 64 KiB: see
    /// [`Leadership::proclaim`](crate::Leadership::proclaim).
    ///
    /// # Errors
    /// As [`Leadership::proclaim`](crate::Leadership::proclaim).
    pub fn proclaim(&mut self, value: impl Into<Vec<u8>>) -> Result<()> {
        wait(proclaim(&self.guard.inner, value.into()))?
    }

    /// Runs `f` with the leadership, and resigns: see [`Guard::with`].
    ///
    /// # Errors
    /// The error of `f`, or [`Lost`](crate::ErrorKind::Lost).
    pub fn with<T, E: From<Error>>(
        mut self,
        f: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let hold = Arc::clone(self.guard.inner.hold());
        let outcome = scoped(|| hold.check(), || f(&mut self));
        covered(outcome, self.resign())
    }

    /// Gives the leadership up, and waits until the store acknowledges this, like
    /// [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn resign(self) -> Result<()> {
        self.guard.release()
    }
}
