//! Waits for a lock outside of a line, and for changes of a line.

use std::time::Duration;

use lockkeeper_core::kit::random::jittered;
use lockkeeper_core::store::{Pace, Revision, Wake, poll};
use lockkeeper_core::{LockName, Result};

use crate::layout::{Keys, Waited, channel, wait, waited};
use crate::nodes::{Reply, Round};
use crate::waiters::{WaitingTask, ticket_of};
use crate::{RedlockStore, line};

/// How often an observer looks.
const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_secs(1));
/// The first waiter of a node asks again after this time at the latest, and a later one after
/// this.
const FIRST: Duration = Duration::from_millis(150);
const LATER: Duration = Duration::from_secs(1);
/// A waiter that some nodes let claim next asks the others again after this time.
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
    faults: usize,
    /// When the nodes are asked again.
    pause: Duration,
}

impl<'a> Waiter<'a> {
    fn new(store: &'a RedlockStore, name: &'a LockName, task: WaitingTask<'a>) -> Self {
        let keys = Keys::of(name);
        // Before the first request, so that no message is missed behind its answer.
        store.0.nodes.subscribe(&channel(store.0.pushed.waiters.client()));
        let round = Round::new();
        Self { store, name, keys, task, is_woken: false, round, faults: 0, pause: LATER }
    }

    /// Waits until a majority lets this waiter claim next.
    async fn run(mut self, within: Duration) -> Wake {
        let (clock, quorum) = (&self.store.0.clock, self.store.0.nodes.quorum());
        let until = clock.now() + within;
        self.ask();
        let mut again_at = clock.now() + self.pause;
        loop {
            let now = clock.now();
            if self.task.free() >= quorum || self.faults > self.store.0.nodes.len() - quorum {
                return self.end(Wake::Changed);
            }
            if now >= until {
                return self.end(Wake::Elapsed);
            }
            if now >= again_at {
                self.ask();
                again_at = now + self.pause;
            }
            if self.task.free() > 0 {
                again_at = again_at.min(now + jittered(SPLIT));
            }
            let pause = again_at.min(until).saturating_since(now);
            let news = async {
                tokio::select! {
                    reply = self.round.next(), if !self.round.is_empty() => reply,
                    () = self.task.notify.notified() => None,
                }
            };
            if let Some(Some((node, reply))) = clock.timeout(pause, news).await {
                let before = self.pause;
                self.answered(node, reply);
                if self.pause < before {
                    again_at = again_at.min(clock.now() + self.pause);
                }
            }
        }
    }

    /// The next claim has the ticket of this waiter, also if it only looks.
    fn end(&mut self, wake: Wake) -> Wake {
        self.is_woken = true;
        self.task.may_claim(self.name, self.store.0.clock.now());
        wake
    }

    /// Asks all nodes for a place among their waiters.
    fn ask(&mut self) {
        self.task.forget_answers();
        (self.round, self.faults, self.pause) = (Round::new(), 0, jittered(LATER));
        let nodes = &self.store.0.nodes;
        for node in 0..nodes.len() {
            let request = wait(&self.keys, &self.task.place.waiter, Some(self.task.place.ticket));
            self.round.add(node, nodes.ask(node, |_| request));
        }
    }

    fn answered(&mut self, node: usize, reply: Reply) {
        match reply.ok().as_ref().and_then(waited) {
            Some(Waited::Free) => self.task.is_free_at(node),
            Some(Waited::Behind(0, left)) => {
                let left = (left + Duration::from_millis(1)).min(FIRST);
                self.pause = self.pause.min(jittered(left.max(SPLIT)));
            }
            Some(Waited::Behind(..)) => {}
            None => self.faults += 1,
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
