//! The guards of a thread's locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lost::{End, Lost, ReleaseRequested};
use super::mirror::{Mirrored, mirror};
use super::park::{may_wait, park, wait};
use crate::engine::Hold;
use crate::guard::covered;
use crate::{Error, FencingToken, LockName, Mode, NotConverted, Result, Sequencer};

/// A held lock. Dropping it releases the lock in the background, without waiting, unless it was
/// [adopted](super::Keeper::adopt).
///
/// A program may send the guard to another thread and drop it there. The async
/// [`Guard`](crate::Guard) describes what a guard promises, and what it does not.
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
    // `end` is dropped before `inner`: the end of the lease after the end of the guard is no loss.
    end: End,
    pub(super) inner: crate::Guard,
}

impl Mirrored for crate::Guard {
    type Here = Guard;

    fn here(self) -> Guard {
        Guard { end: End::default(), inner: self }
    }
}

/// The held locks of a multi-lock. The guard reports a loss as soon as one of its locks is lost.
/// Dropping it releases the locks in the background.
#[must_use = "if unused, the locks are released at once"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    end: End,
    guards: Vec<Guard>,
}

impl Mirrored for crate::MultiGuard {
    type Here = MultiGuard;

    fn here(self) -> MultiGuard {
        MultiGuard {
            end: End::default(),
            guards: self.into_guards().into_iter().map(Mirrored::here).collect(),
        }
    }
}

/// The work under a guard, which needs only `check`, `holds` and `release`.
macro_rules! work {
    ($($Guard:ident)+) => {$(
        impl $Guard {
            /// A value with which another thread waits until the lock is lost. With several locks,
            /// the first loss ends the wait.
            pub fn lost(&self) -> Lost {
                self.end.lost(|| self.holds())
            }

            /// A value with which another thread waits until an operator asks the holder to release
            /// the lock, or one of several locks.
            pub fn release_requested(&self) -> ReleaseRequested {
                self.end.requested(|| self.holds())
            }

            /// Runs `f` if the lock is held, and returns the result of `f` if the lock is still
            /// held then.
            ///
            /// A closure cannot be stopped: it runs to its end even if the lock is lost, and
            /// `scope` returns the loss after that. A closure that takes longer than the ttl should
            /// call [`check`](Self::check) in between.
            ///
            /// `f` returns a `Result`, and its error type converts from [`Error`]. Work that cannot
            /// fail runs in [`while_held`](Self::while_held).
            ///
            /// # Errors
            /// The error of `f`, if `f` fails. [`Lost`](crate::ErrorKind::Lost) when the lock is
            /// lost before the end of `f`.
            pub fn scope<T, E: From<Error>>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
                scoped(|| self.check(), f)
            }

            /// Like [`scope`](Self::scope), for work that cannot fail: returns the value of `f`, or
            /// the loss.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost before the end of `f`.
            pub fn while_held<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
                self.scope(|| Ok(f()))
            }

            /// Runs `f` with the guard, and releases the lock.
            ///
            /// If `f` fails, the result is its error, whatever else went wrong. If `f` succeeds but
            /// the lock was lost before the end of `f`, the result is the loss; `f` has run to its
            /// end, as in [`scope`](Self::scope). If only the release fails, the lock covered the
            /// work, and the result is the value of `f`. A panic in `f` drops the guard.
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
            /// The error of `f`, or [`Lost`](crate::ErrorKind::Lost), which names the lock.
            pub fn with<T, E: From<Error>>(self, f: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
                let outcome = self.scope(|| f(&self));
                covered(outcome, self.release())
            }
        }
    )+};
}

work!(Guard MultiGuard);

impl Guard {
    mirror! { Guard:
        /// The name of the lock as it was typed, without the keeper's prefix.
        call fn name(&self) -> &LockName;
        /// The name of the lock in the store and in sequencers, with the keeper's prefix.
        call fn full_name(&self) -> LockName;
        /// How long the attempt took to acquire the lock.
        call fn waited(&self) -> Duration;
        /// The mode in which the lock is held.
        call fn mode(&self) -> Mode;
        /// The number that distinguishes this grant from all earlier grants of the lock. Send it
        /// with every access to the resource that the lock protects.
        call fn token(&self) -> FencingToken;
        /// Full name, mode and token as one string that can be sent along with a request.
        call fn sequencer(&self) -> Sequencer;
        /// Time left before the guard reports the lock as lost, unless a renewal succeeds first.
        /// Zero once the lock is lost.
        call fn remaining(&self) -> Duration;
        /// Whether the lock is still held, as far as this process can know, without I/O. Long work
        /// should call this method now and then.
        call fn check(&self) -> Result<()>;
        /// Renews the lock now, and waits until the store acknowledges the renewal. This is for
        /// guards that the keeper does not renew: of an [adopted](super::Keeper::adopt) lock, or
        /// with a fixed [lease](super::Attempt::lease).
        wait fn renew_once(&self) -> Result<()>;
        /// Gives back some of the guard's permits.
        wait fn release_permits(&mut self, permits: u32) -> Result<()>;
    }

    /// Releases the lock, and waits until the store acknowledges the release: see
    /// [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// As [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> Result<()> {
        let Self { end, inner } = self;
        drop(end);
        wait(inner.release())?
    }

    /// Turns the writer into a reader: see [`Guard::downgrade`](crate::Guard::downgrade).
    ///
    /// # Errors
    /// As [`Guard::downgrade`](crate::Guard::downgrade): the guard comes back with the error.
    pub fn downgrade(self) -> Result<Self, NotConverted<Self>> {
        self.converted(crate::Guard::downgrade)
    }

    /// Turns the reader into the writer, if the lock has no other holder and no waiter: see
    /// [`Guard::try_upgrade`](crate::Guard::try_upgrade).
    ///
    /// # Errors
    /// As [`Guard::try_upgrade`](crate::Guard::try_upgrade).
    pub fn try_upgrade(self) -> Result<Self, NotConverted<Self>> {
        // The writer is another hold. The threads that wait on the reader see the end of the
        // reader.
        self.converted(crate::Guard::try_upgrade).map(|writer| writer.inner.here())
    }

    fn converted<F>(
        self,
        convert: impl FnOnce(crate::Guard) -> F,
    ) -> Result<Self, NotConverted<Self>>
    where
        F: Future<Output = Result<crate::Guard, NotConverted>>,
    {
        if let Err(error) = may_wait() {
            return Err(NotConverted::new(Some(self), error));
        }
        let Self { end, inner } = self;
        match park(convert(inner)) {
            Ok(inner) => Ok(Self { end, inner }),
            Err(refused) => Err(refused.map(|inner| Self { end, inner })),
        }
    }

    fn holds(&self) -> Vec<Arc<Hold>> {
        vec![Arc::clone(self.inner.hold())]
    }
}

impl MultiGuard {
    /// The guard of each lock, with its token and its sequencer, in the order of the bytes of their
    /// names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of the lock with this name, as it was typed; `None` for a name that the multi-lock
    /// does not have.
    pub fn get(&self, name: impl AsRef<str>) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name.as_ref())
    }

    /// Time left before the guard reports one of the locks as lost: see [`Guard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::ZERO)
    }

    /// Whether all locks are still held, as far as this process can know: see [`Guard::check`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the name of a lost lock.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Releases all locks, and waits until the store acknowledges the releases.
    ///
    /// # Errors
    /// As the async [`MultiGuard::release`](crate::MultiGuard::release).
    pub fn release(self) -> Result<()> {
        let Self { end, guards } = self;
        drop(end);
        let guards = guards.into_iter().map(|guard| guard.inner).collect();
        wait(crate::MultiGuard::from_guards(guards).release())?
    }

    fn holds(&self) -> Vec<Arc<Hold>> {
        self.guards.iter().map(|guard| Arc::clone(guard.inner.hold())).collect()
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

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish()
    }
}
