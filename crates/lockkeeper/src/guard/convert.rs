//! Upgrade and downgrade: a reader that becomes the writer, and a writer that becomes a reader.

use std::sync::Arc;

use super::Guard;
use crate::engine::Request;
use crate::event::{Event, Missed};
use crate::finish::Finish;
use crate::store::{Amend, MAX};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, Mode, Result};

/// What came of an attempt to [upgrade](Guard::try_upgrade).
#[derive(Debug)]
#[must_use = "if unused, the lock is released at once"]
pub enum Upgrade {
    /// It is the writer now.
    Write(Guard),
    /// Others use the lock, or wait for it: it is the reader that it was.
    Read(Guard),
}

impl Guard {
    /// Makes a reader of the writer: other readers are let in, and the token stays. Readers that wait behind a waiting
    /// writer go on waiting.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let writer = prices.write().await?;
    /// // write, then read what was written, with nobody in between
    /// let reader = writer.downgrade().await.map_err(|(_, error)| error)?;
    /// assert!(prices.try_read().await?.is_some());
    /// # reader.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The guard comes back with the error.
    /// [`Invalid`](ErrorKind::Invalid) for a guard that is not exclusive, is of a
    /// [reentrant mutex](crate::ReentrantMutex), or of an [adopted](crate::Keeper::adopt) lock;
    /// [`Unsupported`](ErrorKind::Unsupported) where the store cannot do it; [`Lost`](ErrorKind::Lost) when the lock is
    /// lost. [`Unavailable`](ErrorKind::Unavailable) when the store did not
    /// answer: if the [effect](Error::effect) is unknown, the guard is a reader from now on, as others may be.
    ///
    /// # Cancel safety
    /// Dropping it drops the guard: the lock is released in the background.
    #[allow(clippy::result_large_err, reason = "nothing else can be done with the guard than to return it")]
    pub async fn downgrade(mut self) -> Result<Self, (Self, Error)> {
        if let Err(error) = self.can_become(Mode::Exclusive) {
            return Err((self, error));
        }
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        let amended = Finish::new(&self.engine, async move { engine.amend(&hold, &Amend::Shared).await }).await;
        match amended {
            Ok(()) => {
                self.become_reader();
                Ok(self)
            }
            Err(error) => {
                if error.effect() == Effect::Unknown {
                    self.become_reader();
                }
                Err((self, error))
            }
        }
    }

    fn become_reader(&mut self) {
        let (engine, name) = (&self.engine, &self.hold.key.name);
        self.hold.count(engine.events.holding(name, Mode::Shared));
        engine.events.emit(&Event::Downgraded { name, token: self.token, held: self.held() });
        (self.mode, self.since) = (Mode::Shared, engine.now());
    }

    /// Makes the writer of the reader, if it is the only one who uses the lock or waits for it. The writer has a token
    /// of its own, and a fixed [lease](crate::Acquire::lease) begins anew. A limit of `max_hold` stays as it was.
    ///
    /// There is no upgrade that waits: two readers who wait for each other to leave would do so for ever.
    ///
    /// ```
    /// use lockkeeper::Upgrade;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let prices = keeper.rw_lock("prices")?;
    /// let reader = prices.read().await?;
    /// match reader.try_upgrade().await? {
    ///     Upgrade::Write(writer) => writer.release().await?,
    ///     // release, and wait for the write lock: what was read may have changed by then
    ///     Upgrade::Read(reader) => reader.release().await?,
    /// };
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// After any error the lock is given up. [`Invalid`](ErrorKind::Invalid) for a guard that is not a reader's, or is of
    /// an [adopted](crate::Keeper::adopt) lock;
    /// [`Lost`](ErrorKind::Lost) when the lock was lost; [`Unavailable`](ErrorKind::Unavailable) when the store did not
    /// answer.
    ///
    /// # Cancel safety
    /// Dropping it gives up the lock, whatever it has become.
    pub async fn try_upgrade(mut self) -> Result<Upgrade> {
        self.can_become(Mode::Shared)?;
        self.check()?;
        let request = Request {
            fixed: self.hold.session.is_fixed(),
            reason: self.reason.clone(),
            ..Request::new(self.name().clone(), MAX, MAX, self.hold.session.spec.clone())
        };
        let (engine, hold, asked) = (Arc::clone(&self.engine), Arc::clone(&self.hold), self.engine.now());
        match Finish::new(&self.engine, async move { engine.replace(&hold, request).await }).await {
            Ok(granted) => {
                let writer = Self::new(granted, self.owner.clone(), self.engine.now().saturating_since(asked));
                self.disown();
                self.released = true;
                self.hold.count_no_more();
                self.tell_upgraded(&writer, asked);
                Ok(Upgrade::Write(writer))
            }
            Err(error) => {
                self.tell_not_upgraded(&error, asked);
                if error.kind() == ErrorKind::Timeout { Ok(Upgrade::Read(self)) } else { Err(error) }
            }
        }
    }

    fn tell_not_upgraded(&self, error: &Error, asked: Instant) {
        let waited = self.engine.now().saturating_since(asked);
        let (name, outcome) = (self.name(), Missed::by(error, false));
        self.engine.events.emit(&Event::NotAcquired { name, outcome, waited, error: Some(error) });
    }

    /// One token has ended, and another has begun.
    fn tell_upgraded(&self, writer: &Self, asked: Instant) {
        let waited = self.engine.now().saturating_since(asked);
        let (name, reader, writer, held) = (self.name(), self.token, writer.token(), self.held());
        self.engine.events.emit(&Event::Upgraded { name, reader, writer, held, waited });
    }

    /// Lets others see another value of a candidate.
    pub(crate) async fn show(&self, value: Arc<[u8]>) -> Result<()> {
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        Finish::new(&self.engine, async move { engine.amend(&hold, &Amend::Value(value)).await }).await
    }

    /// Whether it is held in the mode that the conversion begins with, by itself.
    fn can_become(&self, from: Mode) -> Result<()> {
        let invalid =
            |problem: &str, remedy: &str| Err(Error::invalid(problem).with_remedy(remedy).about(self.name().clone()));
        self.engine.usable().map_err(|error| error.about(self.name().clone()))?;
        if self.stake.is_some() {
            return invalid("other guards of its owner may count on it", "a guard of RwLock::write");
        }
        match (from, self.mode) {
            // Whoever adopts the handle again holds the lock as that says.
            (Mode::Exclusive, Mode::Exclusive) if self.is_adopted() => {
                invalid("it was adopted, and its handle says that it writes", "to release it, and to detach a reader")
            }
            (Mode::Shared, Mode::Shared) if self.is_adopted() => invalid(
                "it was adopted, and its handle is good for a reader only",
                "to release it, and to detach a writer",
            ),
            (Mode::Exclusive, Mode::Exclusive) | (Mode::Shared, Mode::Shared) => Ok(()),
            (Mode::Exclusive, _) => invalid("only a writer can be downgraded", "a guard of RwLock::write"),
            _ => invalid("only a reader can be upgraded", "a guard of RwLock::read"),
        }
    }
}
