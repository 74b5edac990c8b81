//! The operations of an administrator: list locks, break a lock, ask its holder to release it.

use std::sync::Arc;

use super::acquire::check_reason;
use super::finish::Finish;
use super::info::LockInfo;
use crate::engine::Engine;
use crate::store::{Evict, Evicted, IdHash, Line, Target as Claim};
use crate::{Error, ErrorKind, FencingToken, LockName, Result};

/// The administrator's operations, from [`Keeper::admin`](crate::Keeper::admin).
#[derive(Clone, Debug)]
pub struct Admin {
    engine: Arc<Engine>,
}

/// The claim whose lock to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The holder with this token.
    Token(FencingToken),
    /// The holder or waiter whose id has this hash, as [`Keeper::inspect`](crate::Keeper::inspect)
    /// shows it.
    IdHash(IdHash),
}

/// How to break a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Break {
    /// The store refuses the renewals of the claim from now on. The next holder gets the lock when
    /// the ttl and the lock-delay of the claim are over, so the old holder learns of its loss
    /// before that.
    Mark,
    /// The store removes the claim at once, and the next waiter gets the lock. This breaks the
    /// promise to the holder, whose guard may report the lock as held for up to its ttl. Only a
    /// resource that checks fencing tokens is still safe.
    Now,
}

impl Admin {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine) }
    }

    /// The locks with a holder or a waiter whose names begin with `prefix`, sorted by name, at most
    /// `limit`. The list has no lock outside the keeper's prefix. It has a lock that this version
    /// cannot read, with its [`problem`](LockInfo::problem).
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("deploy/web")?.lock().await?;
    ///
    /// for lock in keeper.admin()?.list("deploy/", 100).await? {
    ///     println!("{}: {} holders, {} waiters", lock.name, lock.holders.len(), lock.waiters.len());
    /// }
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer.
    ///
    /// # Cancel safety
    /// The future only reads, and may be dropped.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockInfo>> {
        self.engine.usable()?;
        let mut locks = Vec::new();
        for (name, line) in self.engine.lines(prefix.to_owned(), limit).await? {
            let full = self.engine.settings.full_name(&name);
            match line {
                Ok(line) => locks.push(LockInfo::new(full, name, line)),
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    locks.push(LockInfo::unreadable(full, name, error))
                }
                Err(error) => return Err(error),
            }
        }
        Ok(locks)
    }

    /// Breaks the lock of one holder. The holder learns the operator (the owner of this keeper) and
    /// the reason. The result is `false` when there is no such holder.
    ///
    /// A waiter whose claim is broken loses its place, and goes to the end of the queue.
    ///
    /// ```
    /// use lockkeeper::{Break, Keeper, Target};
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = Keeper::memory();
    /// let guard = keeper.mutex("deploy/web")?.lock().await?;
    ///
    /// let holder = keeper.inspect("deploy/web").await?.holders[0].id;
    /// let admin = keeper.admin()?;
    /// assert!(admin.break_lock("deploy/web", Target::IdHash(holder), "runner-7 is gone", Break::Mark).await?);
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for the name, or a reason of more than 1024 bytes;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer: the operation
    /// may have happened, and may be repeated.
    ///
    /// # Cancel safety
    /// A future that is dropped while it looks for the holder has done nothing. If it is dropped
    /// later, the break happens all the same.
    pub async fn break_lock<N>(
        &self,
        name: N,
        target: Target,
        reason: &str,
        how: Break,
    ) -> Result<bool>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.engine.usable()?;
        let name = self.engine.settings.checked_name(name)?;
        check_reason(reason).map_err(|error| error.about(name.clone()))?;
        let line = self.engine.line(&name).await?;
        // An id is used once, so this claim cannot become another holder meanwhile.
        let Some(claim) = find(&line, target) else { return Ok(false) };
        let how = match how {
            Break::Mark => Evict::Mark,
            Break::Now => Evict::Now,
        };
        let (engine, reason) = (Arc::clone(&self.engine), reason.to_owned());
        let evicting = async move {
            // Checked above; a store does not lose its administrator operations.
            let Some(admin) = engine.store.admin() else { return Ok(Evicted::Absent) };
            let evicted =
                admin.evict(&name, &Claim::Id(claim), how, &engine.settings.owner, &reason).await;
            evicted.map_err(|e| engine.describe(e, &name))
        };
        Ok(Finish::new(&self.engine, evicting).await? == Evicted::Done)
    }

    /// Asks the holders of a lock to release it, and breaks nothing. Each holder learns the
    /// operator (the owner of this keeper) and the reason, by
    /// [`Guard::release_requested`](crate::Guard::release_requested) and
    /// [`Event::ReleaseRequested`](crate::Event::ReleaseRequested), and may go on. The result is
    /// `false` when the lock has no holder.
    ///
    /// The request reaches the present holders only, each at once or with its next renewal.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for the name, or a reason of more than 1024 bytes;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer: the operation
    /// may have happened, and may be repeated.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on in the background when the future is dropped.
    pub async fn request_release<N>(&self, name: N, reason: &str) -> Result<bool>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        self.engine.usable()?;
        let name = self.engine.settings.checked_name(name)?;
        check_reason(reason).map_err(|error| error.about(name.clone()))?;
        let (engine, reason) = (Arc::clone(&self.engine), reason.to_owned());
        let asking = async move {
            let Some(admin) = engine.store.admin() else { return Ok(false) };
            let asked = admin.request_release(&name, &engine.settings.owner, &reason).await;
            asked.map_err(|e| engine.describe(e, &name))
        };
        Finish::new(&self.engine, asking).await
    }
}

/// The live claim of the target. A waiter may show a future token; it does not match.
fn find(line: &Line, target: Target) -> Option<IdHash> {
    let mut entries = line.entries.iter();
    let found = entries.find(|entry| match target {
        Target::Token(token) => {
            entry.granted
                && entry.token.and_then(|raw| FencingToken::new(entry.meta.epoch, raw))
                    == Some(token)
        }
        Target::IdHash(id) => entry.id == id,
    });
    found.map(|entry| entry.id)
}
