//! Re-entry: the guards that one owner has of one lock share a claim.
//!
//! The first attempt of an owner acquires as any other does. While a guard of it lives, further ones ask nobody: they
//! take a share in the same claim, and the last of them to go withdraws it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::OwnedMutexGuard;

use super::local_queue::{Pulse, Sign};
use super::lock::lock;
use super::{Attempt, Engine, Granted, Hold};
use crate::time::Instant;
use crate::{FencingToken, LockName, LostReason, Owner, Result};

type Key = (LockName, Owner);

/// What one owner has of one lock.
#[derive(Debug, Default)]
struct OwnerEntry {
    attempt: Mutex<Arc<AttemptLock>>,
    /// What the owner holds.
    reentrant: Mutex<Weak<ReentrantShare>>,
}

/// Taken while an attempt of the owner is under way.
#[derive(Debug, Default)]
struct AttemptLock {
    taken: Arc<tokio::sync::Mutex<()>>,
    sign: Arc<Sign>,
}

/// Has the lock of the attempts.
struct Joined {
    attempt: Arc<AttemptLock>,
    _taken: OwnedMutexGuard<()>,
}

/// The entries that an attempt or a share uses.
#[derive(Debug, Default)]
pub(super) struct OwnerEntries(Mutex<HashMap<Key, Arc<OwnerEntry>>>);

/// The claim that all guards of an owner share.
#[derive(Debug)]
pub(crate) struct ReentrantShare {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// Since when the first of them holds it.
    pub(crate) since: Instant,
    _interest: Interest,
}

/// Keeps an entry in the map for as long as it lives.
#[derive(Debug)]
struct Interest {
    engine: Arc<Engine>,
    key: Key,
}

impl Attempt {
    /// Takes a share in what this owner holds, or acquires it. Must be polled to its end.
    ///
    /// # Errors
    /// `Lost` when the owner has guards of a claim that is lost.
    pub(super) async fn reenter(&self, owner: &Owner) -> Result<Granted> {
        let key = (self.request.name.clone(), owner.clone());
        // Declared first, so that it is dropped last: nobody uses the entry when it looks.
        let interest = Interest { engine: Arc::clone(&self.engine), key };
        let entry = interest.entry();
        // Nobody who holds it already waits for another who wants a share.
        if let Some(granted) = self.share_of(&entry)? {
            return Ok(granted);
        }
        let joined = self.join(&entry).await?;
        if let Some(granted) = self.share_of(&entry)? {
            return Ok(granted);
        }
        let granted = Pulse::new(&self.engine, &joined.attempt.sign).beside(self.acquire_alone()).await?;
        let interest = Interest { engine: Arc::clone(&self.engine), key: interest.key.clone() };
        let (granted, reentrant) = granted.share(interest);
        *lock(&entry.reentrant) = Arc::downgrade(&reentrant);
        Ok(granted)
    }

    fn share_of(&self, entry: &OwnerEntry) -> Result<Option<Granted>> {
        let Some(reentrant) = lock(&entry.reentrant).upgrade() else { return Ok(None) };
        // Made first: it may be the last to have a share, and then ends it.
        let granted = Granted::again(&self.engine, reentrant, &self.request);
        match granted.hold().check() {
            Ok(()) => Ok(Some(granted)),
            // Nobody ever had a guard of it.
            Err(error) if error.lost_reason() == Some(&LostReason::Uncollected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits while another attempt of the same owner is under way and is polled, as far as this one waits at all.
    async fn join(&self, entry: &OwnerEntry) -> Result<Joined> {
        if let Some(joined) = entry.join_at_once() {
            return Ok(joined);
        }
        if !self.request.queue {
            return Err(self.busy());
        }
        self.control.set_waiting(&self.engine.events, &self.request.name);
        tokio::select! {
            biased;
            () = self.stopped() => Err(self.gave_up()),
            joined = entry.join(&self.engine) => Ok(joined),
        }
    }
}

impl OwnerEntry {
    fn join_at_once(&self) -> Option<Joined> {
        let attempt = Arc::clone(&lock(&self.attempt));
        let taken = Arc::clone(&attempt.taken).try_lock_owned().ok()?;
        Some(Joined { attempt, _taken: taken })
    }

    /// May be dropped.
    async fn join(&self, engine: &Engine) -> Joined {
        loop {
            let attempt = Arc::clone(&lock(&self.attempt));
            let taken = attempt.sign.awaits(engine, pin!(Arc::clone(&attempt.taken).lock_owned())).await;
            let mut current = lock(&self.attempt);
            let is_current = Arc::ptr_eq(&current, &attempt);
            match taken {
                Some(taken) if is_current => {
                    return Joined { attempt: Arc::clone(&attempt), _taken: taken };
                }
                // Others go on with the next lock, and find it there.
                None if is_current => *current = Arc::default(),
                _ => {}
            }
        }
    }
}

impl ReentrantShare {
    /// Gives up a share; whether it was the last.
    pub(crate) fn leave(share: Option<Arc<Self>>) -> bool {
        share.is_none_or(|share| Arc::into_inner(share).is_some())
    }
}

impl Granted {
    /// The same grant as one in which others can have a share.
    fn share(mut self, interest: Interest) -> (Self, Arc<ReentrantShare>) {
        let (hold, token) = (Arc::clone(self.hold()), self.grant.token);
        let reentrant = Arc::new(ReentrantShare { hold, token, since: self.engine.now(), _interest: interest });
        self.grant.reentrant = Some(Arc::clone(&reentrant));
        (self, reentrant)
    }
}

impl Interest {
    fn entry(&self) -> Arc<OwnerEntry> {
        Arc::clone(lock(&self.engine.owner_entries.0).entry(self.key.clone()).or_default())
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut entries = lock(&self.engine.owner_entries.0);
        // An attempt that is about to join has a clone of the entry, made under this lock, and its own interest.
        let is_left =
            |entry: &Arc<OwnerEntry>| Arc::strong_count(entry) == 1 && lock(&entry.reentrant).strong_count() == 0;
        if entries.get(&self.key).is_some_and(is_left) {
            entries.remove(&self.key);
        }
    }
}

#[cfg(feature = "testing")]
impl OwnerEntries {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}
