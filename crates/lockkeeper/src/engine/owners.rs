//! The locks that the owners of this process hold, and are about to acquire.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::OwnedMutexGuard;

use super::Hold;
use super::local_queue::Sign;
use super::lock::lock;
use crate::time::{Clock, Instant};
use crate::{FencingToken, LockName, Owner};

type Key = (LockName, Owner);

#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The claims for which an owner has guards.
    held: Mutex<HashMap<Key, Vec<Arc<Hold>>>>,
    /// The entries that an attempt or a share uses.
    entries: Mutex<HashMap<Key, Arc<OwnerEntry>>>,
}

/// The state of one owner and one lock.
#[derive(Debug, Default)]
pub(super) struct OwnerEntry {
    attempt: Mutex<Arc<AttemptLock>>,
    /// The claim that the owner's guards share.
    reentrant: Mutex<Weak<ReentrantShare>>,
}

/// The mutex of the owner's attempts, and the sign that its holder is polled.
#[derive(Debug, Default)]
struct AttemptLock {
    taken: Arc<tokio::sync::Mutex<()>>,
    sign: Arc<Sign>,
}

/// Holds the mutex of the owner's attempts.
pub(super) struct Joined {
    attempt: Arc<AttemptLock>,
    _taken: OwnedMutexGuard<()>,
}

/// The claim that all guards of an owner share.
#[derive(Debug)]
pub(crate) struct ReentrantShare {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// Since when the owner holds the lock.
    pub(crate) since: Instant,
    _interest: Interest,
}

/// Keeps an entry in the map for as long as this value lives.
#[derive(Debug)]
pub(super) struct Interest {
    owners: Arc<Owners>,
    key: Key,
}

impl Owners {
    /// A guard of this owner has this claim from now on.
    pub(crate) fn record(&self, hold: &Arc<Hold>, owner: &Owner) {
        let key = (hold.key.name.clone(), owner.clone());
        lock(&self.held).entry(key).or_default().push(Arc::clone(hold));
    }

    /// A guard of this owner no longer has this claim.
    pub(crate) fn forget(&self, hold: &Arc<Hold>, owner: &Owner) {
        let mut held = lock(&self.held);
        let key = (hold.key.name.clone(), owner.clone());
        if let Some(holds) = held.get_mut(&key) {
            if let Some(at) = holds.iter().position(|held| Arc::ptr_eq(held, hold)) {
                holds.swap_remove(at);
            }
            if holds.is_empty() {
                held.remove(&key);
            }
        }
    }

    /// Whether a guard of this owner holds the lock. A guard of a lost lock does not, even before
    /// its drop.
    pub(super) fn hold(&self, name: &LockName, owner: &Owner) -> bool {
        let held = lock(&self.held);
        held.get(&(name.clone(), owner.clone()))
            .is_some_and(|holds| holds.iter().any(|hold| !hold.is_dead()))
    }

    /// Keeps the entry of this owner and this lock.
    pub(super) fn interest(self: &Arc<Self>, name: &LockName, owner: &Owner) -> Interest {
        Interest { owners: Arc::clone(self), key: (name.clone(), owner.clone()) }
    }

    #[cfg(feature = "testing")]
    pub(super) fn len(&self) -> usize {
        lock(&self.held).len() + lock(&self.entries).len()
    }
}

impl OwnerEntry {
    /// The claim that the owner holds, to share it.
    pub(super) fn reentrant(&self) -> Option<Arc<ReentrantShare>> {
        lock(&self.reentrant).upgrade()
    }

    /// The owner holds this claim from now on.
    pub(super) fn set_reentrant(&self, share: &Arc<ReentrantShare>) {
        *lock(&self.reentrant) = Arc::downgrade(share);
    }

    pub(super) fn join_at_once(&self) -> Option<Joined> {
        // The guard of `attempt` lives until the return: no other task replaces the attempt
        // meanwhile.
        let current = lock(&self.attempt);
        let taken = Arc::clone(&current.taken).try_lock_owned().ok()?;
        Some(Joined { attempt: Arc::clone(&current), _taken: taken })
    }

    /// Waits while another attempt of the owner is under way and is polled. May be dropped.
    pub(super) async fn join(&self, clock: &Clock) -> Joined {
        loop {
            let attempt = Arc::clone(&lock(&self.attempt));
            let taken =
                attempt.sign.awaits(clock, pin!(Arc::clone(&attempt.taken).lock_owned())).await;
            let mut current = lock(&self.attempt);
            let is_current = Arc::ptr_eq(&current, &attempt);
            match taken {
                Some(taken) if is_current => {
                    return Joined { attempt: Arc::clone(&attempt), _taken: taken };
                }
                // The other attempts go on with the new mutex, and find it in the entry.
                None if is_current => *current = Arc::default(),
                _ => {}
            }
        }
    }
}

impl Joined {
    pub(super) fn sign(&self) -> &Arc<Sign> {
        &self.attempt.sign
    }
}

impl ReentrantShare {
    pub(super) fn new(
        hold: Arc<Hold>,
        token: FencingToken,
        since: Instant,
        interest: Interest,
    ) -> Arc<Self> {
        Arc::new(Self { hold, token, since, _interest: interest })
    }

    /// Gives up a share; returns whether it was the last share.
    pub(crate) fn leave(share: Option<Arc<Self>>) -> bool {
        share.is_none_or(|share| Arc::into_inner(share).is_some())
    }
}

impl Interest {
    pub(super) fn entry(&self) -> Arc<OwnerEntry> {
        Arc::clone(lock(&self.owners.entries).entry(self.key.clone()).or_default())
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut entries = lock(&self.owners.entries);
        // An attempt that is about to join has a clone of the entry, made under this mutex, and its
        // own interest.
        let is_left = |entry: &Arc<OwnerEntry>| {
            Arc::strong_count(entry) == 1 && lock(&entry.reentrant).strong_count() == 0
        };
        if entries.get(&self.key).is_some_and(is_left) {
            entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl AttemptLock {
        fn take(&self) -> OwnedMutexGuard<()> {
            Arc::clone(&self.taken).try_lock_owned().expect("it is free")
        }
    }

    /// The current mutex is taken at every moment; a replaced mutex is free.
    #[test]
    fn a_lock_that_was_replaced_is_not_joined() {
        let entry = OwnerEntry::default();
        let mut taken = lock(&entry.attempt).take();
        let joined = std::thread::scope(|scope| {
            let joining = scope.spawn(|| (0..200_000).filter_map(|_| entry.join_at_once()).count());
            while !joining.is_finished() {
                let next = Arc::new(AttemptLock::default());
                let before = std::mem::replace(&mut taken, next.take());
                *lock(&entry.attempt) = next;
                drop(before);
            }
            joining.join().unwrap()
        });
        assert_eq!(joined, 0);
    }
}
