//! Upgrade and downgrade: a reader that becomes the writer, and a writer that becomes a reader.

use std::fmt;
use std::sync::Arc;

use super::Guard;
use crate::engine::Request;
use crate::event::{Event, Missed};
use crate::finish::Finish;
use crate::store::{Amend, MAX};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, Mode, Result};

/// A guard that could not be converted: the error, and the guard, unless the lock was given up.
///
/// `?` converts it into its [`Error`], and releases the lock in the background.
#[derive(Debug)]
#[must_use = "if unused, the lock is released at once"]
pub struct NotConverted<G = Guard>(Box<(Option<G>, Error)>);

impl<G> NotConverted<G> {
    pub(crate) fn new(guard: Option<G>, error: Error) -> Self {
        Self(Box::new((guard, error)))
    }

    /// The error that prevented the conversion.
    pub fn error(&self) -> &Error {
        &self.0.1
    }

    /// The guard; `None` when the lock was given up.
    pub fn into_guard(self) -> Option<G> {
        self.0.0
    }

    /// The guard, unless the lock was given up, and the error.
    pub fn into_parts(self) -> (Option<G>, Error) {
        *self.0
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn map<H>(self, wrap: impl FnOnce(G) -> H) -> NotConverted<H> {
        let (guard, error) = self.into_parts();
        NotConverted::new(guard.map(wrap), error)
    }
}

impl<G> From<NotConverted<G>> for Error {
    fn from(refused: NotConverted<G>) -> Self {
        refused.0.1
    }
}

impl<G> fmt::Display for NotConverted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl<G: fmt::Debug> std::error::Error for NotConverted<G> {}

impl Guard {
    /// Turns the writer into a reader, which lets other readers in. The token stays. Readers that
    /// wait behind a waiting writer go on waiting.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let writer = prices.write().await?;
    /// // write, then read what was written; no other writer comes in between
    /// let reader = writer.downgrade().await?;
    /// assert!(prices.try_read().await?.is_some());
    /// # reader.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The guard comes back with each error. [`Invalid`](ErrorKind::Invalid) for a guard that is
    /// not exclusive, and for the guard of a [reentrant mutex](crate::ReentrantMutex) or of an
    /// [adopted](crate::Keeper::adopt) lock. [`Unsupported`](ErrorKind::Unsupported) if the store
    /// cannot downgrade. [`Lost`](ErrorKind::Lost) when the lock is lost.
    /// [`Unavailable`](ErrorKind::Unavailable) when the store did not answer: if the
    /// [effect](Error::effect) is unknown, the guard is a reader from now on, since other readers
    /// may hold the lock too.
    ///
    /// # Cancel safety
    /// Dropping the future drops the guard, which releases the lock in the background.
    pub async fn downgrade(mut self) -> Result<Self, NotConverted> {
        let name = self.name();
        let reads = || {
            self.engine
                .capabilities
                .admits(1, MAX)
                .map_err(|error| self.engine.describe(error, name))
        };
        if let Err(error) = self.can_become(Mode::Exclusive).and_then(|()| reads()) {
            return Err(NotConverted::new(Some(self), error));
        }
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        let amended =
            Finish::new(&self.engine, async move { engine.amend(&hold, &Amend::Lower(1)).await })
                .await;
        match amended {
            Ok(()) => {
                self.become_reader();
                Ok(self)
            }
            Err(error) => {
                if error.effect() == Effect::Unknown {
                    self.become_reader();
                }
                Err(NotConverted::new(Some(self), error))
            }
        }
    }

    /// Gives back some of the permits of a guard from
    /// [`acquire_many`](crate::Semaphore::acquire_many). The other permits stay, with the same
    /// token. [`release`](Self::release) gives back the last permit.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let workers = keeper.semaphore("workers", 3)?;
    /// let mut guard = workers.acquire_many(3).await?;
    /// // the work for one permit is done
    /// guard.release_permits(1).await?;
    /// assert!(workers.try_acquire().await?.is_some());
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no permits, for all permits, for a guard without
    /// permits, and for an [adopted](crate::Keeper::adopt) lock.
    /// [`Unsupported`](ErrorKind::Unsupported) if the store cannot do it. [`Lost`](ErrorKind::Lost)
    /// when the lock is lost. [`Unavailable`](ErrorKind::Unavailable) when the store did not
    /// answer: if the [effect](Error::effect) is unknown, the permits count as given back, but may
    /// stay taken until the release of the guard.
    ///
    /// # Cancel safety
    /// Once polled, the call goes on in the background when the future is dropped, and the permits
    /// count as given back.
    pub async fn release_permits(&mut self, permits: u32) -> Result<()> {
        let left = self.left_without(permits)?;
        let (engine, hold, all) = (Arc::clone(&self.engine), Arc::clone(&self.hold), self.mode);
        self.mode = Mode::Permits(left);
        let amended =
            Finish::new(
                &self.engine,
                async move { engine.amend(&hold, &Amend::Lower(left)).await },
            )
            .await;
        if amended.as_ref().is_err_and(|error| error.effect() == Effect::None) {
            self.mode = all;
        }
        amended
    }

    fn left_without(&self, permits: u32) -> Result<u32> {
        let invalid = |problem: String, remedy: &str| {
            Err(Error::invalid(problem).with_remedy(remedy).about(self.name().clone()))
        };
        match self.mode {
            // The process that adopts the handle next believes in the number of permits in the
            // handle.
            Mode::Permits(_) if self.is_adopted() => {
                let problem = "it was adopted, and its handle says how many permits it has";
                invalid(
                    problem.to_owned(),
                    "release() for all of them, and a handle for each permit",
                )
            }
            Mode::Permits(held) if permits > 0 && permits < held => Ok(held - permits),
            Mode::Permits(held) => invalid(
                format!("{permits} of {held} permits cannot be given back"),
                "release() for all of them",
            ),
            _ => invalid("it holds no permits".to_owned(), "a guard of Semaphore::acquire_many"),
        }
    }

    fn become_reader(&mut self) {
        let (engine, name) = (&self.engine, &self.hold.key.name);
        self.hold.count(engine.events.holding(name, Mode::Shared));
        engine.events.emit(&Event::Downgraded { name, token: self.token, held: self.held() });
        (self.mode, self.since) = (Mode::Shared, engine.now());
    }

    /// Turns the reader into the writer, if the lock has no other holder and no waiter. The writer
    /// has a new token, and a fixed [lease](crate::Acquire::lease) starts again. The limit of
    /// `max_hold` stays as it was.
    ///
    /// There is no upgrade that waits: two readers that wait for each other's release would wait
    /// for ever.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let reader = prices.read().await?;
    /// match reader.try_upgrade().await.map_err(|refused| refused.into_parts()) {
    ///     Ok(writer) => writer.release().await?,
    ///     // release, and wait for the write lock: what was read may have changed by then
    ///     Err((Some(reader), _)) => reader.release().await?,
    ///     Err((None, error)) => return Err(error),
    /// };
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The guard comes back, still a reader, with [`Timeout`](ErrorKind::Timeout) when the lock has
    /// other holders or waiters, and with [`Invalid`](ErrorKind::Invalid) when the guard is not a
    /// reader's or its lock was [adopted](crate::Keeper::adopt). The lock is given up with
    /// [`Lost`](ErrorKind::Lost) when it was lost, and with [`Unavailable`](ErrorKind::Unavailable)
    /// when the store did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the lock, whether the guard was still a reader or already the
    /// writer.
    pub async fn try_upgrade(mut self) -> Result<Self, NotConverted> {
        if let Err(error) = self.can_become(Mode::Shared) {
            return Err(NotConverted::new(Some(self), error));
        }
        self.check().map_err(|error| NotConverted::new(None, error))?;
        let request = Request {
            fixed: self.hold.session.is_fixed(),
            reason: self.reason.clone(),
            ..Request::new(self.name().clone(), MAX, MAX, self.hold.session.spec.clone())
        };
        let (engine, hold, asked) =
            (Arc::clone(&self.engine), Arc::clone(&self.hold), self.engine.now());
        match Finish::new(&self.engine, async move { engine.replace(&hold, request).await }).await {
            Ok(granted) => {
                let writer = Self::new(
                    granted,
                    self.owner.clone(),
                    self.engine.now().saturating_since(asked),
                );
                self.forget_owner();
                self.released = true;
                self.hold.count_no_more();
                self.report_upgraded(&writer, asked);
                Ok(writer)
            }
            Err(error) => {
                self.report_not_upgraded(&error, asked);
                Err(NotConverted::new((error.kind() == ErrorKind::Timeout).then_some(self), error))
            }
        }
    }

    fn report_not_upgraded(&self, error: &Error, asked: Instant) {
        let waited = self.engine.now().saturating_since(asked);
        let (name, outcome) = (self.name(), Missed::by(error, false));
        self.engine.events.emit(&Event::NotAcquired { name, outcome, waited, error: Some(error) });
    }

    /// Reports the end of the reader's token and the beginning of the writer's.
    fn report_upgraded(&self, writer: &Self, asked: Instant) {
        let waited = self.engine.now().saturating_since(asked);
        let (name, reader, writer, held) = (self.name(), self.token, writer.token(), self.held());
        self.engine.events.emit(&Event::Upgraded { name, reader, writer, held, waited });
    }

    /// Replaces the value of a candidate.
    pub(crate) async fn show(&self, value: Arc<[u8]>) -> Result<()> {
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        Finish::new(&self.engine, async move { engine.amend(&hold, &Amend::Value(value)).await })
            .await
    }

    /// Whether the guard alone holds the lock, and in the mode from which the conversion starts.
    fn can_become(&self, from: Mode) -> Result<()> {
        let invalid = |problem: &str, remedy: &str| {
            Err(Error::invalid(problem).with_remedy(remedy).about(self.name().clone()))
        };
        self.engine.usable().map_err(|error| error.about(self.name().clone()))?;
        if self.reentrant.is_some() {
            return invalid(
                "the guard of a reentrant mutex cannot be converted",
                "a guard of RwLock::write",
            );
        }
        match (from, self.mode) {
            // The process that adopts the handle next holds the lock in the mode of the handle.
            (Mode::Exclusive, Mode::Exclusive) if self.is_adopted() => invalid(
                "it was adopted, and its handle is for a writer only",
                "release it, and detach a reader",
            ),
            (Mode::Shared, Mode::Shared) if self.is_adopted() => invalid(
                "it was adopted, and its handle is for a reader only",
                "release it, and detach a writer",
            ),
            (Mode::Exclusive, Mode::Exclusive) | (Mode::Shared, Mode::Shared) => Ok(()),
            (Mode::Exclusive, _) => {
                invalid("only a writer can be downgraded", "a guard of RwLock::write")
            }
            _ => invalid("only a reader can be upgraded", "a guard of RwLock::read"),
        }
    }
}
