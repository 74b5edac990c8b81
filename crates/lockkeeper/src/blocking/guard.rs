//! The guard of a thread's lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lost::{End, Lost};
use super::park::{may_wait, park, wait};
use super::requested::ReleaseRequested;
use crate::engine::Hold;
use crate::guard::covered;
use crate::kinds::proclaim;
use crate::{Error, FencingToken, LockName, Mode, NotConverted, Result, Sequencer};

/// A held lock. Dropping it releases the lock in the background, without waiting, unless it was
/// [adopted](super::Keeper::adopt).
///
/// A program may send the guard to another thread and drop it there. The async [`Guard`](crate::Guard) describes what a
/// guard promises, and what it does not.
///
/// ```
/// # fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let guard = keeper.mutex("stock/42")?.lock()?;
/// for item in ["a", "b"] {
///     guard.check()?;
///     println!("{item} goes to the warehouse, with {}", guard.token());
/// }
/// guard.release()?;
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct Guard {
    // Dropped first: what the lease does after the guard is no loss.
    end: End,
    inner: crate::Guard,
}

impl Guard {
    pub(super) fn new(inner: crate::Guard) -> Self {
        Self { end: End::default(), inner }
    }

    /// The name of the lock as it was typed, without the keeper's prefix.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// The name of the lock in the store and in sequencers, with the keeper's prefix.
    pub fn full_name(&self) -> LockName {
        self.inner.full_name()
    }

    /// How long the attempt took to acquire the lock: see [`Guard::waited`](crate::Guard::waited).
    pub fn waited(&self) -> Duration {
        self.inner.waited()
    }

    /// The mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// The number that tells this grant from all earlier grants of the lock. Send it with every access to what the lock
    /// protects.
    pub fn token(&self) -> FencingToken {
        self.inner.token()
    }

    /// Full name, mode and token as one string that can be sent along with a request.
    pub fn sequencer(&self) -> Sequencer {
        self.inner.sequencer()
    }

    /// Time left before the guard reports the lock as lost, unless a renewal succeeds first. Zero once the lock is
    /// lost.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether the lock is still held, as far as this process can know, without I/O: see
    /// [`Guard::check`](crate::Guard::check). Long work should call it now and then.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the [reason](Error::lost_reason). A lost lock stays lost.
    /// [`Unavailable`](crate::ErrorKind::Unavailable) for an [adopted](super::Keeper::adopt) lock before its first
    /// renewal.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// A value with which another thread waits until the lock is lost.
    pub fn lost(&self) -> Lost {
        self.end.lost(|| vec![Arc::clone(self.inner.hold())])
    }

    /// A value with which another thread waits until an operator asks the holder to release the lock.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.end.requested(|| vec![Arc::clone(self.inner.hold())])
    }

    /// Runs `f` if the lock is held, and returns the result of `f` if the lock is still held then.
    ///
    /// A closure cannot be stopped. It runs to its end even if the lock is lost, and `scope` returns the loss after
    /// that. A closure that takes longer than the ttl should call [`check`](Self::check) in between.
    ///
    /// `f` returns a `Result`, and its error type converts from [`Error`]. Work that cannot fail runs in
    /// [`while_held`](Self::while_held).
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when the lock is lost before the end of `f`.
    pub fn scope<T, E: From<Error>>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        scoped(|| self.check(), f)
    }

    /// Like [`scope`](Self::scope), for work that cannot fail: returns the value of `f`, or the loss.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost before the end of `f`.
    pub fn while_held<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.scope(|| Ok(f()))
    }

    /// Runs `f` with the guard, and releases the lock.
    ///
    /// If `f` fails, the result is its error, whatever else went wrong. If `f` succeeds but the lock was lost before
    /// the end of `f`, the result is the loss; `f` has run to its end, as in [`scope`](Self::scope). If only the
    /// release fails, the lock covered the work, and the result is the value of `f`. A panic in `f` drops the guard.
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let sold = keeper.mutex("stock/42")?.lock()?.with(|guard| {
    ///     guard.check()?;
    ///     Ok::<_, lockkeeper::Error>(3)
    /// })?;
    /// assert_eq!(sold, 3);
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    ///
    /// # Errors
    /// That of `f`, or [`Lost`](crate::ErrorKind::Lost).
    pub fn with<T, E: From<Error>>(self, f: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        let outcome = self.scope(|| f(&self));
        covered(outcome, self.release())
    }

    /// Releases the lock, and waits until the store acknowledges the release: see
    /// [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock was no longer held, with the [reason](Error::lost_reason).
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not acknowledge the release in four tries,
    /// and [`Closed`](crate::ErrorKind::Closed) when the store is gone for good. The keeper tries again in the
    /// background until the lease expires.
    pub fn release(self) -> Result<()> {
        wait(self.into_inner().release())?
    }

    /// Renews the lock now, and waits until the store acknowledges the renewal. The lease starts again with its whole
    /// ttl. This is for guards that the keeper does not renew: of an [adopted](super::Keeper::adopt) lock, or with a
    /// fixed [lease](super::Attempt::lease).
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost. [`Unavailable`](crate::ErrorKind::Unavailable) when the
    /// store did not answer: the lease keeps its end, and another renewal may succeed.
    pub fn renew_once(&self) -> Result<()> {
        wait(self.inner.renew_once())?
    }

    /// Gives back some of the guard's permits: see [`Guard::release_permits`](crate::Guard::release_permits).
    ///
    /// # Errors
    /// As [`Guard::release_permits`](crate::Guard::release_permits).
    pub fn release_permits(&mut self, permits: u32) -> Result<()> {
        wait(self.inner.release_permits(permits))?
    }

    /// Turns the writer into a reader: see [`Guard::downgrade`](crate::Guard::downgrade).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let writer = prices.write()?;
    /// // write, then read what was written; no other writer comes in between
    /// let reader = writer.downgrade()?;
    /// assert!(prices.try_read()?.is_some());
    /// # reader.release()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Guard::downgrade`](crate::Guard::downgrade): the guard comes back with the error.
    pub fn downgrade(self) -> Result<Self, NotConverted<Self>> {
        if let Err(error) = may_wait() {
            return Err(NotConverted::new(Some(self), error));
        }
        let Self { end, inner } = self;
        match park(inner.downgrade()) {
            Ok(inner) => Ok(Self { end, inner }),
            Err(refused) => Err(refused.map(|inner| Self { end, inner })),
        }
    }

    /// Turns the reader into the writer, if the lock has no other holder and no waiter: see
    /// [`Guard::try_upgrade`](crate::Guard::try_upgrade).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let reader = keeper.rw_lock("prices")?.read()?;
    /// match reader.try_upgrade().map_err(|refused| refused.into_parts()) {
    ///     Ok(writer) => writer.release()?,
    ///     // release, and wait for the write lock: what was read may have changed by then
    ///     Err((Some(reader), _)) => reader.release()?,
    ///     Err((None, error)) => return Err(error),
    /// };
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Guard::try_upgrade`](crate::Guard::try_upgrade).
    pub fn try_upgrade(self) -> Result<Self, NotConverted<Self>> {
        if let Err(error) = may_wait() {
            return Err(NotConverted::new(Some(self), error));
        }
        let Self { end, inner } = self;
        match park(inner.try_upgrade()) {
            Ok(inner) => Ok(Self::new(inner)),
            Err(refused) => Err(refused.map(|inner| Self { end, inner })),
        }
    }

    /// Shows another value of a candidate.
    pub(super) fn proclaim(&self, value: Vec<u8>) -> Result<()> {
        wait(proclaim(&self.inner, value))?
    }

    pub(super) fn into_inner(self) -> crate::Guard {
        self.inner
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        self.inner.hold()
    }
}

/// Runs `f` between two checks. An error of `f` counts before a loss.
pub(super) fn scoped<T, E: From<Error>>(
    check: impl Fn() -> Result<()>,
    f: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    check()?;
    let value = f()?;
    check()?;
    Ok(value)
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
