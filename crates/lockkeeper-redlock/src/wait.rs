//! Waits for a lock outside of a line, and for changes of a line.

use std::time::Duration;

use lockkeeper_core::kit::random::jittered;
use lockkeeper_core::store::{Pace, Revision, Wake, poll};
use lockkeeper_core::time::Instant;
use lockkeeper_core::{LockName, Result};

use crate::layout::{Keys, Waited, channel, wait, waited};
use crate::nodes::{Reply, Round};
use crate::waiters::{WaitingTask, bit, ticket_of};
use crate::{RedlockStore, line};

/// How often an observer looks.
const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_secs(1));
/// The first waiter of a node asks again after this time at the latest, and a later one after
/// this.
const FIRST: Duration = Duration::from_millis(150);
const LATER: Duration = Duration::from_secs(1);
/// A waiter that some nodes let claim next asks again after this time. The time doubles, up to that
/// of a first waiter, while no more nodes do.
const SPLIT: Duration = Duration::from_millis(10);

/// Waits until the next claim may succeed, or the line has changed.
pub(super) async fn name(
    store: &RedlockStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    store.check_process()?;
    match ticket_of(seen) {
        Some((ticket, exclusive)) => {
            Ok(Waiter::new(store, name, store.0.pushed.waiters.wait(ticket, exclusive))
                .run(within)
                .await)
        }
        None => observe(store, name, seen, within).await,
    }
}

/// Waits for another revision of a line.
async fn observe(
    store: &RedlockStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    let changed = poll(&store.0.clock, PACE, within, || async {
        let line = line::line(store, name).await?;
        Ok((line.revision != seen).then_some(Wake::Changed))
    });
    Ok(changed.await?.unwrap_or(Wake::Elapsed))
}

/// An attempt that waits. Dropping it leaves the waiters of all nodes.
struct Waiter<'a> {
    store: &'a RedlockStore,
    name: &'a LockName,
    keys: Keys,
    task: WaitingTask<'a>,
    is_woken: bool,
    round: Round<Reply>,
    /// Sets of nodes, as bits: without a reply to the last request, without a usable reply, and
    /// those that let this waiter claim next before they were asked again.
    pending: u64,
    faults: u64,
    free_before: u64,
    /// When the nodes are asked again.
    again_at: Instant,
    split: Duration,
    /// How many nodes let this waiter claim next when it asked last.
    free_then: u32,
}

impl<'a> Waiter<'a> {
    fn new(store: &'a RedlockStore, name: &'a LockName, task: WaitingTask<'a>) -> Self {
        let keys = Keys::of(name);
        // Before the first request, so that no message is missed behind its answer.
        store.0.nodes.subscribe(&channel(store.0.pushed.waiters.client()));
        Self {
            store,
            name,
            keys,
            task,
            is_woken: false,
            round: Round::new(),
            pending: 0,
            faults: 0,
            free_before: 0,
            again_at: store.0.clock.now(),
            split: SPLIT,
            free_then: 0,
        }
    }

    /// Waits until a majority lets this waiter claim next.
    async fn run(mut self, within: Duration) -> Wake {
        let (clock, quorum) = (&self.store.0.clock, self.store.0.nodes.quorum());
        let until = clock.now() + within;
        loop {
            let now = clock.now();
            if self.free() as usize >= quorum {
                return self.end(Wake::Changed);
            }
            if now >= until {
                return self.end(Wake::Elapsed);
            }
            if self.faults.count_ones() as usize > self.store.0.nodes.len() - quorum {
                // The next claim finds out what is wrong. Many such claims would be a burden.
                clock.sleep(jittered(FIRST).min(until.saturating_since(now))).await;
                return self.end(Wake::Changed);
            }
            let missed = self.task.missed();
            if missed != 0 {
                self.ask(missed);
            }
            if now >= self.again_at {
                self.ask_all(now);
            }
            self.news(self.again_at.min(until).saturating_since(now)).await;
            if self.free() > 0 {
                self.asks_in(self.split);
            }
        }
    }

    /// Waits for a reply or a message, at most for this time.
    async fn news(&mut self, pause: Duration) {
        let news = async {
            tokio::select! {
                reply = self.round.next(), if !self.round.is_empty() => reply,
                () = self.task.notify.notified() => None,
            }
        };
        let news = self.store.0.clock.timeout(pause, news).await;
        if let Some(Some((node, reply))) = news {
            self.answered(node, reply);
        }
    }

    /// How many nodes let this waiter claim next.
    fn free(&self) -> u32 {
        (self.task.free() | self.free_before).count_ones()
    }

    /// The next request is due after this time, or earlier.
    fn asks_in(&mut self, pause: Duration) {
        self.again_at = self.again_at.min(self.store.0.clock.now() + jittered(pause));
    }

    /// The next claim has the ticket of this waiter, also if it only looks.
    fn end(&mut self, wake: Wake) -> Wake {
        self.is_woken = true;
        let free = self.task.free() | self.free_before;
        self.task.may_claim(self.name, free, self.store.0.clock.now());
        wake
    }

    /// Asks all nodes whose replies are not still to come.
    fn ask_all(&mut self, now: Instant) {
        let free = self.free();
        let is_new = free == 0 || free > self.free_then;
        self.split = if is_new { SPLIT } else { (self.split * 2).min(FIRST) };
        (self.free_then, self.again_at) = (free, now + jittered(LATER));
        self.ask(!self.pending);
    }

    /// Asks these nodes for a place among their waiters. What they have said before counts until
    /// they answer.
    fn ask(&mut self, asked: u64) {
        self.free_before |= self.task.forget(asked);
        self.faults &= !asked;
        let nodes = &self.store.0.nodes;
        for node in (0..nodes.len()).filter(|node| asked & bit(*node) != 0) {
            let request = wait(&self.keys, &self.task.place.waiter, Some(self.task.place.ticket));
            self.round.add(node, nodes.ask(node, |_| request));
            self.pending |= bit(node);
        }
    }

    /// A node has answered. A message that has come since it was asked stays.
    fn answered(&mut self, node: usize, reply: Reply) {
        for nodes in [&mut self.pending, &mut self.free_before, &mut self.faults] {
            *nodes &= !bit(node);
        }
        match reply.ok().as_ref().and_then(waited) {
            Some(Waited::Free) => self.task.is_free_at(node),
            Some(Waited::Behind(0, left)) => {
                let left = (left + Duration::from_millis(1)).min(FIRST);
                self.asks_in(left.max(SPLIT));
            }
            Some(Waited::Behind(..)) => {}
            None => self.faults |= bit(node),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.is_woken {
            return;
        }
        let nodes = &self.store.0.nodes;
        for node in 0..nodes.len() {
            let left = wait(&self.keys, &self.task.place.waiter, None);
            drop(nodes.ask(node, |_| left));
        }
    }
}
