//! The order of this client's requests about one line. etcd processes the requests of one
//! connection in any order. So the claims of a name are sent one after the other, and a claim
//! deletes, in its own transaction, the keys whose release is under way and may arrive after it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::sync::lock;
use tokio::sync::Mutex as Gate;

use crate::LockName;
use crate::layout::{Leaver, LeaverState};

/// A claim deletes at most so many keys of other releases.
const MOST: usize = 16;

/// The requests under way, by name.
#[derive(Debug, Default)]
pub(crate) struct Order(Mutex<HashMap<LockName, Line>>);

#[derive(Debug, Default)]
struct Line {
    gate: Arc<Gate<()>>,
    /// How many claims were in the line when a claim of this client joined last.
    queue_len: Arc<AtomicU32>,
    /// How many guards and releases it has.
    users: usize,
    leaving: Vec<Arc<Leaving>>,
}

/// A key whose deletion is under way.
#[derive(Debug)]
struct Leaving {
    leaver: Leaver,
    /// A claim may have deleted it first.
    taken: AtomicBool,
}

/// The place of a claim among the claims of this client on its name, until this is dropped.
#[derive(Debug)]
pub(crate) struct OrderGuard {
    order: Arc<Order>,
    name: LockName,
    /// The turn of the name: the claim that has it sends its request (`gates` has the order).
    pub(crate) gate: Arc<Gate<()>>,
    /// How many claims were in the line a moment ago; 0 if none of this client has joined it.
    pub(crate) queue_len: Arc<AtomicU32>,
}

/// A withdrawal that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct LeaveGuard<'a> {
    order: &'a Order,
    name: LockName,
    one: Arc<Leaving>,
}

impl Order {
    /// Joins behind the claims of this name that are on their way.
    pub(crate) fn guard(self: &Arc<Self>, name: &LockName) -> OrderGuard {
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        let (gate, queue_len) = (Arc::clone(&line.gate), Arc::clone(&line.queue_len));
        OrderGuard { order: Arc::clone(self), name: name.clone(), gate, queue_len }
    }

    /// Notes a key whose deletion is about to be sent. If its revision is not known, no claim
    /// deletes it first.
    pub(crate) fn leave(&self, name: &LockName, leaver: Leaver) -> LeaveGuard<'_> {
        let is_known = !matches!(leaver.state, LeaverState::Created(0) | LeaverState::Changed(0));
        let one = Arc::new(Leaving { leaver, taken: AtomicBool::new(false) });
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        if is_known {
            line.leaving.push(Arc::clone(&one));
        }
        LeaveGuard { order: self, name: name.clone(), one }
    }

    /// The keys of this name that a claim deletes in its own transaction. It cannot be the key that
    /// the claim puts: etcd refuses to delete and to put one key in one transaction.
    pub(crate) fn piggyback_deletes(&self, name: &LockName, own: &[u8]) -> Vec<Leaver> {
        let lines = self.lock();
        let Some(line) = lines.get(name) else { return Vec::new() };
        let taken = line.leaving.iter().filter(|one| one.leaver.key != own).take(MOST);
        taken
            .inspect(|one| one.taken.store(true, Ordering::Release))
            .map(|one| one.leaver.clone())
            .collect()
    }

    fn remove(&self, name: &LockName, one: Option<&Arc<Leaving>>) {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        lock(&self.0)
    }
}

impl LeaveGuard<'_> {
    /// Whether a claim may have deleted the key first.
    pub(crate) fn was_piggybacked(&self) -> bool {
        self.one.taken.load(Ordering::Acquire)
    }
}

impl Drop for OrderGuard {
    fn drop(&mut self) {
        self.order.remove(&self.name, None);
    }
}

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        self.order.remove(&self.name, Some(&self.one));
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_claim_carries_the_withdrawals_of_its_line_and_none_is_remembered() {
        let (order, name, other) = (Order::default(), "a".parse().unwrap(), "b".parse().unwrap());
        let leaver = |key: &'static str, created: i64| Leaver {
            key: key.into(),
            state: LeaverState::Created(created),
        };
        let leaves = order.leave(&name, leaver("k", 7));
        let stays = order.leave(&other, leaver("l", 8));
        let of_whom_little_is_known = order.leave(&name, leaver("m", 0));
        assert_eq!(order.piggyback_deletes(&name, b"own"), [leaver("k", 7)]);
        assert_eq!(
            order.piggyback_deletes(&name, b"k"),
            [],
            "etcd refuses to delete and to put the same"
        );
        assert!(
            leaves.was_piggybacked()
                && !stays.was_piggybacked()
                && !of_whom_little_is_known.was_piggybacked()
        );
        drop((leaves, stays, of_whom_little_is_known));
        assert!(order.piggyback_deletes(&name, b"own").is_empty() && order.lock().is_empty());
    }

    #[test]
    fn claims_of_one_name_run_in_the_order_of_their_first_polls() {
        let (order, name) = (Arc::new(Order::default()), "a".parse().unwrap());
        let guards = [order.guard(&name), order.guard(&name), order.guard(&name)];
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = Box::pin(guards[1].gate.lock());
        let mut third = Box::pin(guards[2].gate.lock());
        let first = guards[0].gate.try_lock().unwrap();
        assert!(
            second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending()
        );
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
