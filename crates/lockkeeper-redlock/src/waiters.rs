//! The tasks of this client that wait for locks, outside of any line.
//!
//! Each node keeps the waiters of a lock by their tickets, and lets the first of them claim next
//! when the lock is free. That is a hint: only a claim at a majority decides. A ticket is the time
//! of a node when it turned the attempt away, so all nodes have nearly the same order.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use data_encoding::HEXLOWER;
use lockkeeper_core::LockName;
use lockkeeper_core::kit::random;
use lockkeeper_core::store::Revision;
use lockkeeper_core::sync::lock;
use lockkeeper_core::time::Instant;
use tokio::sync::Notify;

/// A claim uses the place of a waiter that was woken no longer ago than this.
const USED_WITHIN: Duration = Duration::from_secs(1);

/// With so many names, those whose waiters have given up are forgotten.
const NAMES: usize = 1024;

/// The bit of a revision that is a ticket, and the bit of an exclusive claim.
const TICKET: u64 = 1 << 63;
const EXCLUSIVE: u64 = 1 << 62;

/// The place of an attempt among the waiters of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ticket: u64,
    pub(crate) exclusive: bool,
    /// As the nodes know the waiter.
    pub(crate) waiter: String,
    /// The nodes that have let this waiter claim next, as bits.
    pub(crate) free: u64,
}

/// The waiters of this client.
#[derive(Debug)]
pub(crate) struct Waiters {
    client: String,
    state: Mutex<AllWaiters>,
}

#[derive(Debug, Default)]
struct AllWaiters {
    /// The number of the last waiter.
    last: u32,
    waiting: HashMap<u32, Woken>,
    /// The places of the waiters that may claim now, the first one first.
    may_claim: HashMap<LockName, VecDeque<(Instant, Place)>>,
}

/// Which nodes have let a waiter claim next.
#[derive(Clone, Debug, Default)]
struct Woken {
    nodes: u64,
    /// The nodes whose messages may have been missed.
    missed: u64,
    notify: Arc<Notify>,
}

/// The bit of a node.
pub(crate) fn bit(node: usize) -> u64 {
    1 << (node % 64)
}

/// A task that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingTask<'a> {
    waiters: &'a Waiters,
    number: u32,
    pub(crate) notify: Arc<Notify>,
    pub(crate) place: Place,
}

/// The revision with the ticket of an attempt that was turned away. Its next wait gives it back.
pub(crate) fn with_ticket(ticket: u64, exclusive: bool) -> Revision {
    let exclusive = if exclusive { EXCLUSIVE } else { 0 };
    Revision(TICKET | exclusive | ticket & (EXCLUSIVE - 1))
}

/// The ticket in a revision, and whether it is that of an exclusive claim.
pub(crate) fn ticket_of(seen: Revision) -> Option<(u64, bool)> {
    (seen.0 & TICKET != 0).then_some((seen.0 & (EXCLUSIVE - 1), seen.0 & EXCLUSIVE != 0))
}

impl Default for Waiters {
    fn default() -> Self {
        let client = HEXLOWER.encode(&random::bits128()[..8]);
        Self { client, state: Mutex::default() }
    }
}

impl Waiters {
    /// The name of this client, of which its channel is made.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// A task begins to wait.
    pub(crate) fn wait(&self, ticket: u64, exclusive: bool) -> WaitingTask<'_> {
        let mut state = self.lock();
        state.last = state.last.wrapping_add(1);
        let number = state.last;
        let woken = Woken::default();
        let notify = Arc::clone(&woken.notify);
        state.waiting.insert(number, woken);
        let mode = if exclusive { 'x' } else { 's' };
        let waiter = format!("{}{number:08x}{mode}", self.client);
        WaitingTask {
            waiters: self,
            number,
            notify,
            place: Place { ticket, exclusive, waiter, free: 0 },
        }
    }

    /// A node lets a waiter claim next.
    pub(crate) fn free(&self, node: usize, payload: &[u8]) {
        let number = std::str::from_utf8(payload).ok();
        let number = number.and_then(|number| u32::from_str_radix(number, 16).ok());
        if let Some(number) = number {
            self.set_free(node, number);
        }
    }

    /// Messages of a node may have been missed.
    pub(crate) fn look_again(&self, node: usize) {
        for woken in self.lock().waiting.values_mut() {
            woken.missed |= bit(node);
            woken.notify.notify_one();
        }
    }

    /// The place of the first waiter of this name that may claim now.
    pub(crate) fn may_claim(
        &self,
        name: &LockName,
        exclusive: bool,
        now: Instant,
    ) -> Option<Place> {
        let mut state = self.lock();
        let places = state.may_claim.get_mut(name)?;
        places.retain(|(woken, _)| now.saturating_since(*woken) < USED_WITHIN);
        let at = places.iter().position(|(_, place)| place.exclusive == exclusive);
        let found = at.and_then(|at| places.remove(at));
        if places.is_empty() {
            state.may_claim.remove(name);
        }
        found.map(|(_, place)| place)
    }

    fn set_free(&self, node: usize, number: u32) {
        if let Some(woken) = self.lock().waiting.get_mut(&number) {
            woken.nodes |= bit(node);
            woken.notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, AllWaiters> {
        lock(&self.state)
    }
}

impl WaitingTask<'_> {
    /// A node has answered that this waiter may claim next.
    pub(crate) fn is_free_at(&self, node: usize) {
        self.waiters.set_free(node, self.number);
    }

    /// The nodes that let this waiter claim next, as bits.
    pub(crate) fn free(&self) -> u64 {
        self.waiters.lock().waiting.get(&self.number).map_or(0, |woken| woken.nodes)
    }

    /// The waiter asks these nodes again. Returns which of them let it claim next until now.
    pub(crate) fn forget(&self, nodes: u64) -> u64 {
        let mut state = self.waiters.lock();
        let Some(woken) = state.waiting.get_mut(&self.number) else { return 0 };
        let forgotten = woken.nodes & nodes;
        woken.nodes &= !nodes;
        forgotten
    }

    /// The nodes whose messages may have been missed since the last call, as bits.
    pub(crate) fn missed(&self) -> u64 {
        let mut state = self.waiters.lock();
        state.waiting.get_mut(&self.number).map_or(0, |woken| std::mem::take(&mut woken.missed))
    }

    /// The next claim of this client on this name has the place of this waiter, which these nodes
    /// let claim next.
    pub(crate) fn may_claim(&self, name: &LockName, free: u64, now: Instant) {
        let place = (now, Place { free, ..self.place.clone() });
        let may_claim = &mut self.waiters.lock().may_claim;
        if may_claim.len() >= NAMES {
            let is_used =
                |(woken, _): &(Instant, Place)| now.saturating_since(*woken) < USED_WITHIN;
            may_claim.retain(|_, places| places.iter().any(is_used));
        }
        may_claim.entry(name.clone()).or_default().push_back(place);
    }
}

impl Drop for WaitingTask<'_> {
    fn drop(&mut self) {
        self.waiters.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::time::Clock;

    use super::*;

    #[test]
    fn a_revision_of_a_refusal_has_the_ticket_and_that_of_a_line_has_none() {
        for (ticket, exclusive) in [(0, true), (1_795_240_940_224_900, false)] {
            assert_eq!(ticket_of(with_ticket(ticket, exclusive)), Some((ticket, exclusive)));
        }
        assert_eq!(ticket_of(Revision(7)), None);
    }

    #[test]
    fn nodes_count_once_and_a_place_is_used_once_and_soon() {
        let (waiters, clock) = (Waiters::default(), Clock::boot());
        let (name, now): (LockName, _) = ("a".parse().unwrap(), clock.now());
        let task = waiters.wait(5, true);
        let number = &task.place.waiter.as_bytes()[16..24];
        waiters.free(2, number);
        task.is_free_at(2);
        task.is_free_at(0);
        assert_eq!(task.free(), bit(0) | bit(2));
        assert_eq!((task.forget(bit(2) | bit(1)), task.free()), (bit(2), bit(0)));
        waiters.look_again(1);
        assert_eq!((task.missed(), task.missed()), (bit(1), 0));
        task.may_claim(&name, 0, now);
        task.may_claim(&name, 0, now);
        assert_eq!(waiters.may_claim(&name, false, now), None);
        assert_eq!(waiters.may_claim(&name, true, now), Some(task.place.clone()));
        assert_eq!(waiters.may_claim(&name, true, now + USED_WITHIN), None);
        assert_eq!(waiters.may_claim(&name, true, now), None);
    }
}
