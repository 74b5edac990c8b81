//! The order of what this client asks about one line. etcd processes requests of one connection in any order, so claims
//! go one after the other; and a claim takes along what is leaving, which may arrive after it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Mutex as Gate;

use crate::LockName;

/// So many are taken along at most.
const MOST: usize = 16;

/// What is on its way, by name.
#[derive(Debug, Default)]
pub(super) struct Order(Mutex<HashMap<LockName, Line>>);

#[derive(Debug, Default)]
struct Line {
    gate: Arc<Gate<()>>,
    /// How many stood there when somebody of this client joined last.
    queue_len: Arc<AtomicU32>,
    /// How many guards it has.
    users: usize,
    leaving: Vec<Arc<One>>,
}

/// A key that is to go.
#[derive(Debug)]
struct One {
    key: Bytes,
    created: i64,
    /// A claim has taken it along.
    taken: AtomicBool,
}

/// The claims of a name pass one after the other: this one is among them until it is dropped.
#[derive(Debug)]
pub(super) struct OrderGuard {
    order: Arc<Order>,
    name: LockName,
    /// Whoever has it is asking.
    pub(super) gate: Arc<Gate<()>>,
    /// How many stood in line a moment ago; 0 if nobody has looked.
    pub(super) queue_len: Arc<AtomicU32>,
}

/// A withdrawal, until this is dropped.
#[derive(Debug)]
pub(super) struct Leaves<'a> {
    order: &'a Order,
    name: LockName,
    one: Arc<One>,
}

impl Order {
    /// Joins behind the claims of this name that are on their way.
    pub(super) fn guard(self: &Arc<Self>, name: &LockName) -> OrderGuard {
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        let (gate, queue_len) = (Arc::clone(&line.gate), Arc::clone(&line.queue_len));
        OrderGuard { order: Arc::clone(self), name: name.clone(), gate, queue_len }
    }

    /// The key that this revision has made is about to be deleted. Where that is not known, nobody takes it along.
    pub(super) fn leave(&self, name: &LockName, key: Bytes, created: i64) -> Leaves<'_> {
        let one = Arc::new(One { key, created, taken: AtomicBool::new(false) });
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        if created != 0 {
            line.leaving.push(Arc::clone(&one));
        }
        Leaves { order: self, name: name.clone(), one }
    }

    /// The keys of this name that a claim takes along, which is to have another one.
    pub(super) fn piggyback_deletes(&self, name: &LockName, own: &Bytes) -> Vec<(Bytes, i64)> {
        let lines = self.lock();
        let Some(line) = lines.get(name) else { return Vec::new() };
        let taken = line.leaving.iter().filter(|one| one.key != *own).take(MOST);
        taken
            .inspect(|one| one.taken.store(true, Ordering::Release))
            .map(|one| (one.key.clone(), one.created))
            .collect()
    }

    fn remove(&self, name: &LockName, one: Option<&Arc<One>>) {
        let mut lines = self.lock();
        let Some(line) = lines.get_mut(name) else { return };
        line.users -= 1;
        if let Some(one) = one {
            line.leaving.retain(|other| !Arc::ptr_eq(one, other));
        }
        if line.users == 0 {
            lines.remove(name);
        }
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaves<'_> {
    /// Whether a claim may have deleted it first.
    pub(super) fn was_piggybacked(&self) -> bool {
        self.one.taken.load(Ordering::Acquire)
    }
}

impl Drop for OrderGuard {
    fn drop(&mut self) {
        self.order.remove(&self.name, None);
    }
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.order.remove(&self.name, Some(&self.one));
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_claim_takes_along_what_leaves_the_same_line_and_nothing_is_remembered() {
        let (order, name, other) = (Order::default(), "a".parse().unwrap(), "b".parse().unwrap());
        let leaves = order.leave(&name, "k".into(), 7);
        let stays = order.leave(&other, "l".into(), 8);
        let of_whom_little_is_known = order.leave(&name, "m".into(), 0);
        assert_eq!(order.piggyback_deletes(&name, &"own".into()), [("k".into(), 7)]);
        assert_eq!(order.piggyback_deletes(&name, &"k".into()), [], "etcd refuses to delete and to put the same");
        assert!(leaves.was_piggybacked() && !stays.was_piggybacked() && !of_whom_little_is_known.was_piggybacked());
        drop((leaves, stays, of_whom_little_is_known));
        assert!(order.piggyback_deletes(&name, &"own".into()).is_empty() && order.lock().is_empty());
    }

    #[test]
    fn claims_of_one_name_go_one_after_the_other_in_the_order_of_their_first_polls() {
        let (order, name) = (Arc::new(Order::default()), "a".parse().unwrap());
        let guards = [order.guard(&name), order.guard(&name), order.guard(&name)];
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = Box::pin(guards[1].gate.lock());
        let mut third = Box::pin(guards[2].gate.lock());
        let first = guards[0].gate.try_lock().unwrap();
        assert!(second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_ready());
        let other = order.guard(&"b".parse().unwrap());
        assert!(other.gate.try_lock().is_ok());
        drop((second, third));
        drop((guards, other));
        assert!(order.lock().is_empty());
    }
}
