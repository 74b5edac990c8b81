//! What the owners of this process hold, and what they are about to acquire.

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
    /// The claims of which an owner has guards.
    held: Mutex<HashMap<Key, Vec<Arc<Hold>>>>,
    /// The entries that an attempt or a share uses.
    entries: Mutex<HashMap<Key, Arc<OwnerEntry>>>,
}

/// What one owner has of one lock, or is about to have.
#[derive(Debug, Default)]
pub(super) struct OwnerEntry {
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
pub(super) struct Joined {
    attempt: Arc<AttemptLock>,
    _taken: OwnedMutexGuard<()>,
}

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

    /// A guard of this owner has it no more.
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

    /// Whether a guard of this owner holds the lock. One that is lost holds nothing, though nobody
    /// has dropped it.
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
    /// What the owner holds, to have a share in it.
    pub(super) fn reentrant(&self) -> Option<Arc<ReentrantShare>> {
        lock(&self.reentrant).upgrade()
    }

    /// The owner holds this from now on.
    pub(super) fn set_reentrant(&self, share: &Arc<ReentrantShare>) {
        *lock(&self.reentrant) = Arc::downgrade(share);
    }

    pub(super) fn join_at_once(&self) -> Option<Joined> {
        // Kept for the whole of it: nobody puts another lock in the place of this one meanwhile.
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
                // Others go on with the next lock, and find it there.
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

    /// Gives up a share; whether it was the last.
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
        // An attempt that is about to join has a clone of the entry, made under this lock, and its
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

    /// The lock that is current is taken at every moment; one that was replaced is free.
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
