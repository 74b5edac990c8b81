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
/// It may be sent to another thread and dropped there. What is promised of it, and what is not, stands at the async
/// [`Guard`](crate::Guard).
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

    /// The lock, as it is typed: without the keeper's prefix.
    pub fn name(&self) -> &LockName {
        self.inner.name()
    }

    /// The lock as the store and its sequencers know it, with the keeper's prefix.
    pub fn full_name(&self) -> LockName {
        self.inner.full_name()
    }

    /// How long the attempt took that acquired it: see [`Guard::waited`](crate::Guard::waited).
    pub fn waited(&self) -> Duration {
        self.inner.waited()
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// The number that tells this grant from all earlier ones of this lock. Send it with every access to what the
    /// lock protects.
    pub fn token(&self) -> FencingToken {
        self.inner.token()
    }

    /// Full name, mode and token as one string that can be sent along with a request.
    pub fn sequencer(&self) -> Sequencer {
        self.inner.sequencer()
    }

    /// For how long the holder may believe if no renewal is acknowledged any more; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether the lock is still held, as far as this process can know, without I/O: see
    /// [`Guard::check`](crate::Guard::check). A long piece of work looks now and then.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the [reason](Error::lost_reason). What was lost stays lost.
    /// [`Unavailable`](crate::ErrorKind::Unavailable) for an [adopted](super::Keeper::adopt) lock that was not renewed
    /// yet.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// What another thread can wait with until the lock is lost.
    pub fn lost(&self) -> Lost {
        self.end.lost(|| vec![Arc::clone(self.inner.hold())])
    }

    /// What another thread can wait with until somebody asks the holder to let go.
    pub fn release_requested(&self) -> ReleaseRequested {
        self.end.requested(|| vec![Arc::clone(self.inner.hold())])
    }

    /// Runs `f` if the lock is held, and returns what `f` does if it is still held then.
    ///
    /// A closure cannot be stopped: it runs to its end although the lock is lost, and only then is the loss returned.
    /// One that takes longer than the ttl looks at [`check`](Self::check) in between.
    ///
    /// `f` returns a `Result`, and its error type converts from [`Error`]. Work that cannot fail runs in
    /// [`while_held`](Self::while_held).
    ///
    /// # Errors
    /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when the lock is lost before the end of `f`.
    pub fn scope<T, E: From<Error>>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        scoped(|| self.check(), f)
    }

    /// The same as [`scope`](Self::scope) for work that cannot fail: the value of `f`, or the loss.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost before the end of `f`.
    pub fn while_held<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        self.scope(|| Ok(f()))
    }

    /// Runs `f` with the guard, and releases the lock.
    ///
    /// When `f` fails, its error is returned, whatever else went wrong. When it succeeds but the lock was lost before
    /// its end, the result is the loss; `f` has run to its end, as in [`scope`](Self::scope). When only the release
    /// fails, the work was covered, and `f`'s value is returned. A panic in `f` drops the guard.
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

    /// Releases the lock, and waits for the store's word for it: see [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock was not held any more, with the [reason](Error::lost_reason).
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not acknowledge it in four tries, and
    /// [`Closed`](crate::ErrorKind::Closed) when the store is gone for good. The keeper goes on trying in the
    /// background until the lease has ended.
    pub fn release(self) -> Result<()> {
        wait(self.into_inner().release())?
    }

    /// Renews the lock now, and waits for the store's word for it. For guards that nobody else renews: of an
    /// [adopted](super::Keeper::adopt) lock, or of a fixed [lease](super::Attempt::lease). Its whole ttl begins anew.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost, [`Unavailable`](crate::ErrorKind::Unavailable) when the
    /// store did not answer: then it is held for as long as it was before, and another renewal may succeed.
    pub fn renew_once(&self) -> Result<()> {
        wait(self.inner.renew_once())?
    }

    /// Gives back some of its permits: see [`Guard::release_permits`](crate::Guard::release_permits).
    ///
    /// # Errors
    /// As [`Guard::release_permits`](crate::Guard::release_permits).
    pub fn release_permits(&mut self, permits: u32) -> Result<()> {
        wait(self.inner.release_permits(permits))?
    }

    /// Makes a reader of the writer: see [`Guard::downgrade`](crate::Guard::downgrade).
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let writer = prices.write()?;
    /// // write, then read what was written, with nobody in between
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

    /// Makes the writer of the reader, if it is the only one who uses the lock or waits for it: see
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
