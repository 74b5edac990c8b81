//! The guard: the value of a held lock, with its checks and its release.

mod convert;
mod detached;
mod scope;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

pub use self::convert::NotConverted;
pub(crate) use self::scope::{covered, scoped};
use super::finish::Finish;
use crate::engine::{Engine, Grant, Granted, Hold, ReentrantShare, Share};
use crate::event::Event;
use crate::runtime;
use crate::store::HeldClaim;
use crate::time::Instant;
use crate::{FencingToken, LockName, Lost, Mode, Owner, ReleaseRequested, Result, Sequencer};

/// A held lock. Dropping it releases the lock in the background, unless it was
/// [adopted](crate::Keeper::adopt).
///
/// While the store keeps its state, and clocks run at rates that differ by less than the drift
/// allowance (0.5 % for each), no [`check`](Self::check), no [`remaining`](Self::remaining) and no
/// poll inside [`scope`](Self::scope) or [`Acquire::with`](crate::Acquire::with) that *starts*
/// after the store may have given the lock away says that it is held. Only the resource can stop a
/// request that the holder sent before: send the [token](Self::token) with every access
/// ([`fence`](crate::fence)).
///
/// A release in the background may not leave a process that ends at once. The lock then stays taken
/// for its ttl. At the end of `main`, await [`release`](Self::release) or
/// [`Keeper::shutdown`](crate::Keeper::shutdown).
///
/// A web framework drops a handler when its client hangs up, and the guard with it. Spawn work that
/// must finish, and *move the guard into it*:
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let guard = keeper.mutex("stock/42")?.lock().await?;
/// tokio::spawn(async move {
///     guard.while_held(async { /* the work */ }).await?;
///     guard.release().await
/// });
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct Guard {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    token: FencingToken,
    mode: Mode,
    owner: Option<Owner>,
    reason: Option<Arc<str>>,
    /// The share in the claim, if the guard is that of a reentrant mutex.
    reentrant: Option<Arc<ReentrantShare>>,
    /// The share in the claim, if another attempt has acquired it.
    share: Option<Share>,
    since: Instant,
    waited: Duration,
    released: bool,
    span: Span,
}

impl Guard {
    pub(crate) fn new(granted: Granted, owner: Option<Owner>, waited: Duration) -> Self {
        let (engine, Grant { hold, token, mode, reason, reentrant, again }) = granted.take();
        let share = again.then(|| hold.share());
        if !again {
            hold.collect();
            hold.count(engine.events.holding(&hold.key.name, mode));
        }
        if let Some(owner) = &owner {
            engine.owners.record(&hold, owner);
        }
        let span =
            tracing::debug_span!(target: "lockkeeper", "lock.hold", lock = %hold.key.name, %token);
        let since = reentrant.as_ref().map_or_else(|| engine.now(), |reentrant| reentrant.since);
        runtime::remember_thread();
        Self {
            engine,
            hold,
            token,
            mode,
            owner,
            reason,
            reentrant,
            share,
            since,
            waited,
            released: false,
            span,
        }
    }

    /// The name of the lock as it was typed, without the keeper's prefix.
    pub fn name(&self) -> &LockName {
        &self.hold.key.name
    }

    /// The name of the lock in the store and in sequencers, with the keeper's prefix.
    pub fn full_name(&self) -> LockName {
        self.engine.settings.full_name(self.name())
    }

    /// How long the attempt took to acquire the lock; zero for an [adopted](crate::Keeper::adopt)
    /// lock.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The number that distinguishes this grant from all earlier grants of the lock. Send it with
    /// every access to the resource that the lock protects.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The claim of this guard, for a check that the store itself makes, such as `etcd::compare`.
    pub fn held_claim(&self) -> HeldClaim {
        HeldClaim::new(self.name().clone(), self.token, self.engine.store.fence_key(&self.hold.key))
    }

    /// Full name, mode and token as one string that can be sent along with a request.
    pub fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.full_name(), self.mode, self.token)
    }

    /// Time left before the guard reports the lock as lost, unless a renewal succeeds first. Zero
    /// once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Whether the lock is still held, as far as this process can know. The check compares two
    /// times, without I/O.
    ///
    /// A check does not replace the token: any amount of time can pass between the check and the
    /// access that it was for.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the [reason](crate::Error::lost_reason). A lost lock
    /// stays lost. [`Unavailable`](crate::ErrorKind::Unavailable) for an
    /// [adopted](crate::Keeper::adopt) lock before its first renewal.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// A future that completes with the reason when the lock is lost. The future may outlive the
    /// guard. It then stays pending, or completes when the lease of the guard would have expired.
    ///
    /// ```
    /// # async fn write_report() {}
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("report")?.lock().await?;
    /// tokio::select! {
    ///     () = write_report() => guard.release().await?,
    ///     reason = guard.lost() => eprintln!("stopped: {reason}"),
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::of(vec![Arc::clone(&self.hold)])
    }

    /// A future that completes when an operator [asks](crate::Admin::request_release) the holder to
    /// release the lock. The holder decides what to do: finish its work and release the lock, or go
    /// on.
    ///
    /// The request arrives at once where the store pushes messages to its clients: memory, Redis
    /// without sharded channels, etcd. Elsewhere it arrives with the next renewal, within a third
    /// of the ttl. If a message of Redis gets lost, the next renewal delivers the request. If the
    /// keeper does not renew the lock, a request arrives on Redis and `file:` only with
    /// [`renew_once`](Self::renew_once), and for an [adopted](crate::Keeper::adopt) lock on etcd no
    /// request arrives. The guard ignores a request from before its grant, which was for an earlier
    /// holder. It reports a repeated request once.
    ///
    /// ```
    /// # async fn f() -> lockkeeper::Result<()> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("deploy/web")?.lock().await?;
    ///
    /// assert!(keeper.admin()?.request_release("deploy/web", "a hot fix waits").await?);
    /// let request = guard.release_requested().await;
    /// assert_eq!(request.reason, "a hot fix waits");
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
    /// ```
    pub fn release_requested(&self) -> ReleaseRequested {
        ReleaseRequested::of(vec![Arc::clone(&self.hold)])
    }

    /// Completes when others may have the lock: with its [loss](Self::lost), unless a mark or the
    /// end of `max_hold` leaves it to this holder for the rest of its lease; then at the end of the
    /// lease, or once it was removed at once.
    ///
    /// # Cancel safety
    /// It only reads, and may be dropped.
    #[doc(hidden)]
    pub async fn given_away(&self) {
        self.engine.given_away(&self.hold).await;
    }

    /// Releases the lock, and waits until the store acknowledges the release.
    ///
    /// A guard of a reentrant mutex gives up its share. The lock is released with the last guard of
    /// its owner.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock was no longer held, with the
    /// [reason](crate::Error::lost_reason): another holder may have had the lock during the work.
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not acknowledge the
    /// release in four tries, and [`Closed`](crate::ErrorKind::Closed) when the store is gone for
    /// good. In both cases the lock covered the work. The lock may stay taken until its lease
    /// expires, and the keeper tries to release it in the background until then.
    ///
    /// # Cancel safety
    /// Once polled, the release goes on in the background when this is dropped.
    pub async fn release(mut self) -> Result<()> {
        if self.hold.is_forked() {
            return self.hold.check();
        }
        self.released = true;
        self.forget_owner();
        let is_last = self.leave();
        if self.hold.is_dead() {
            if is_last {
                self.engine.clean_up_after_loss(&self.hold);
            }
            return self.hold.check();
        }
        if !is_last {
            return Ok(());
        }
        self.hold.count_no_more();
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        Finish::new(&self.engine, async move { engine.release(&hold).await }).await?;
        let (name, token, mode, held) = (self.name(), self.token, self.mode, self.held());
        self.span
            .in_scope(|| self.engine.events.emit(&Event::Released { name, token, mode, held }));
        Ok(())
    }

    /// Renews the lock now, and waits until the store acknowledges the renewal. The lease starts
    /// again with its whole ttl. This is for guards that the keeper does not renew: of an
    /// [adopted](crate::Keeper::adopt) lock, or with a fixed [lease](crate::Acquire::lease).
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lock is lost.
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store did not answer: the lease
    /// keeps its end, and another renewal may succeed.
    ///
    /// # Cancel safety
    /// Once polled, the renewal goes on in the background when this is dropped.
    pub async fn renew_once(&self) -> Result<()> {
        self.engine.usable().map_err(|error| error.about(self.name().clone()))?;
        let (engine, hold) = (Arc::clone(&self.engine), Arc::clone(&self.hold));
        Finish::new(&self.engine, async move { engine.renew_once(&hold).await }).await
    }

    fn is_adopted(&self) -> bool {
        self.hold.session.is_adopted()
    }

    fn held(&self) -> Duration {
        self.engine.now().saturating_since(self.since)
    }

    fn forget_owner(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.engine.owners.forget(&self.hold, &owner);
        }
    }

    /// Gives up the share in the claim; returns whether it was the last share.
    fn leave(&mut self) -> bool {
        let is_last = ReentrantShare::leave(self.reentrant.take());
        if !is_last {
            self.engine.left_to_others(&self.hold, self.share.take());
        }
        is_last
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.released && self.reentrant.is_none() {
            return;
        }
        // In a forked child the engine's threads do not exist, and a mutex that they held stays
        // locked.
        if self.hold.is_forked() {
            std::mem::forget(self.reentrant.take());
            return;
        }
        if self.released {
            return;
        }
        self.forget_owner();
        if !self.leave() {
            return;
        }
        self.hold.count_no_more();
        if self.is_adopted() {
            return self.engine.detach(&self.hold);
        }
        if self.hold.is_dead() {
            return self.engine.clean_up_after_loss(&self.hold);
        }
        let (name, token, held) = (self.hold.key.name.clone(), self.token, self.held());
        if std::thread::panicking() && !self.hold.session.spec.lock_delay.is_zero() {
            self.engine.abandon(&self.hold);
        } else {
            self.engine.withdraw_later(&self.hold);
        }
        let (engine, mode, span) =
            (Arc::clone(&self.engine), self.mode, std::mem::replace(&mut self.span, Span::none()));
        self.engine.runtime.aside(move || {
            span.in_scope(|| {
                engine.events.emit(&Event::DroppedWithoutRelease { name: &name, token, mode, held })
            });
        });
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("mode", &self.mode)
            .field("token", &self.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
