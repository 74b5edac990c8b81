//! The reentrant mutex of a thread.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::MutexGuard;

use super::attempt::Attempt;
use super::guard::Guard;
use super::mirror::wrappers;
use crate::{Error, Owner, Result};

wrappers! {
    /// A mutex that a thread can lock again while it holds it. The async
    /// [`ReentrantMutex`](crate::ReentrantMutex) takes an [`Owner`]; here the owner is the thread.
    ///
    /// The first `lock` of a thread waits in the queue like any other. While the thread has a
    /// guard, its further calls succeed at once, without the store. The lock is released with the
    /// last guard. A guard stays on its thread. If a guard is leaked, its lock stays taken after
    /// the end of the thread, until the shutdown of the keeper.
    ///
    /// In a runtime, the tasks of one thread are one owner, and a task may move to another thread.
    /// So async code needs the async mutex.
    ///
    /// ```
    /// # fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::blocking::Keeper::memory();
    /// let ledger = keeper.reentrant_mutex("ledger")?;
    /// let outer = ledger.lock()?;
    /// let inner = ledger.lock()?;
    /// assert_eq!(inner.token(), outer.token());
    /// outer.release()?;
    /// std::thread::scope(|threads| {
    ///     let another = threads.spawn(|| ledger.try_lock().map(|guard| guard.is_none()));
    ///     assert!(another.join().unwrap().unwrap());
    /// });
    /// inner.release()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    #[derive(Clone, Debug)]
    ReentrantMutex;
}

impl ReentrantMutex {
    /// Waits in the queue for the lock, without a limit unless [`attempt`](Self::attempt) or the
    /// keeper sets one. A thread that holds the lock gets it at once.
    ///
    /// # Errors
    /// The errors of [`Acquire`](crate::Acquire).
    pub fn lock(&self) -> Result<ReentrantGuard> {
        self.attempt().lock()
    }

    /// Takes the lock if it is free or held by this thread, and returns `None` otherwise.
    ///
    /// # Errors
    /// The errors of [`Acquire`](crate::Acquire).
    pub fn try_lock(&self) -> Result<Option<ReentrantGuard>> {
        self.attempt().try_lock()
    }
}

/// The options of an attempt apply to the first guard of a thread. Further guards join the lock
/// that the thread holds. The owner is always the thread, whatever [`owner`](Self::owner) sets.
impl Attempt<'_, ReentrantMutex> {
    /// As [`ReentrantMutex::lock`], with these options.
    ///
    /// # Errors
    /// The errors of [`Acquire`](crate::Acquire).
    pub fn lock(self) -> Result<ReentrantGuard> {
        let me = this_thread();
        let asked = self.lock.inner.lock(&me);
        self.owner(&me).held(asked).map(ReentrantGuard::new)
    }

    /// As [`ReentrantMutex::try_lock`], with these options. The attempt joins the queue only with
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// The errors of [`Acquire`](crate::Acquire).
    pub fn try_lock(self) -> Result<Option<ReentrantGuard>> {
        let me = this_thread();
        let asked = self.lock.inner.try_lock(&me);
        Ok(self.owner(&me).wrapped(asked)?.map(ReentrantGuard::new))
    }
}

thread_local! {
    /// The owner is random, since a new thread may get the number of a thread that has ended.
    static THIS_THREAD: Owner = Owner::new();
}

pub(super) fn this_thread() -> Owner {
    // At the very end of a thread its thread-local values are gone, so the thread is a new owner.
    THIS_THREAD.try_with(Owner::clone).unwrap_or_else(|_| Owner::new())
}

/// A guard of a [`ReentrantMutex`](super::ReentrantMutex): a [`Guard`] that stays on its thread.
/// Dropping it releases the lock in the background if it is the last one of the thread.
///
/// ```compile_fail,E0277
/// # let keeper = lockkeeper::blocking::Keeper::memory();
/// let guard = keeper.reentrant_mutex("ledger").unwrap().lock().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct ReentrantGuard {
    guard: Guard,
    /// The guard can be shared but not sent to another thread, like a guard of std.
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl ReentrantGuard {
    pub(super) fn new(guard: Guard) -> Self {
        Self { guard, stays: PhantomData }
    }

    /// Runs `f` with the guard, and releases the guard: see [`Guard::with`].
    ///
    /// # Errors
    /// The error of `f`, or [`Lost`](crate::ErrorKind::Lost).
    pub fn with<T, E: From<Error>>(self, f: impl FnOnce(&Guard) -> Result<T, E>) -> Result<T, E> {
        self.guard.with(f)
    }

    /// Releases the lock if this is the last guard of the thread, and waits until the store
    /// acknowledges the release: see [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn release(self) -> Result<()> {
        self.guard.release()
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
