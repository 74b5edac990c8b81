//! Withdrawals that are on their way: etcd may process a later claim of this client before them, so that claim takes
//! them along.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::LockName;

/// So many are taken along at most.
const MOST: usize = 16;

/// Every withdrawal that has no answer yet.
#[derive(Debug, Default)]
pub(super) struct Leaving(Mutex<HashMap<LockName, Vec<Arc<One>>>>);

/// A key that is to go.
#[derive(Debug)]
pub(super) struct One {
    pub(super) key: Bytes,
    /// A claim has taken it along.
    taken: AtomicBool,
}

/// A withdrawal, until this is dropped.
#[derive(Debug)]
pub(super) struct Leaves<'a> {
    all: &'a Leaving,
    name: LockName,
    one: Arc<One>,
}

impl Leaving {
    /// This key is about to be deleted.
    pub(super) fn begin(&self, name: &LockName, key: Bytes) -> Leaves<'_> {
        let one = Arc::new(One { key, taken: AtomicBool::new(false) });
        self.lock().entry(name.clone()).or_default().push(Arc::clone(&one));
        Leaves { all: self, name: name.clone(), one }
    }

    /// The keys of this name that a claim takes along.
    pub(super) fn take_along(&self, name: &LockName) -> Vec<Bytes> {
        let all = self.lock();
        let Some(leaving) = all.get(name) else { return Vec::new() };
        let taken = leaving.iter().take(MOST);
        taken.inspect(|one| one.taken.store(true, Ordering::Release)).map(|one| one.key.clone()).collect()
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Vec<Arc<One>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaves<'_> {
    /// Whether a claim may have deleted it first.
    pub(super) fn was_taken_along(&self) -> bool {
        self.one.taken.load(Ordering::Acquire)
    }
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        let Some(leaving) = all.get_mut(&self.name) else { return };
        leaving.retain(|one| !Arc::ptr_eq(one, &self.one));
        if leaving.is_empty() {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_takes_along_what_leaves_the_same_line_and_nothing_is_remembered() {
        let (leaving, name, other) = (Leaving::default(), "a".parse().unwrap(), "b".parse().unwrap());
        let leaves = leaving.begin(&name, "k".into());
        let stays = leaving.begin(&other, "l".into());
        assert_eq!(leaving.take_along(&name), ["k"]);
        assert!(leaves.was_taken_along() && !stays.was_taken_along());
        drop((leaves, stays));
        assert!(leaving.take_along(&name).is_empty() && leaving.lock().is_empty());
    }
}
