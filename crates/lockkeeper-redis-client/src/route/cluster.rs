//! The nodes of a cluster, and which of them has which slot.
//!
//! The client asks for the map of the slots at the beginning, when a node says that a slot is
//! elsewhere, when a node cannot be reached, and from time to time. Subscriptions follow their
//! slots.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lockkeeper_core::sync::lock;
use tokio::sync::Notify;

use super::node::NodeListener;
use super::slots::{self, Range, Redirect, SLOTS};
use crate::random;
use crate::runtime::Runtime;
use crate::time::{Clock, Instant};
use crate::wire::{Endpoint, Link, Listener, Request, Settings, Who, WireError};

/// How often the client asks for the map without a reason, and with a reason.
const SELDOM: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_millis(200);
/// The shortest pause between two questions. The pause grows while reasons follow each other at
/// once.
const PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// How long one node may take to answer before the client asks the next node.
pub(super) const TURN: Duration = Duration::from_secs(1);

/// A route through a cluster.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<ClusterHandle>);

#[derive(Debug)]
struct ClusterHandle(Arc<ClusterInner>);

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.news.notify_one();
    }
}

pub(super) struct ClusterInner {
    /// The runtime that opened the cluster. Every connection to a node lives in it, whichever
    /// request meets the node first.
    runtime: Arc<Runtime>,
    seed: Endpoint,
    seeds: Vec<Endpoint>,
    settings: Arc<Settings>,
    pub(super) listener: Arc<dyn Listener>,
    /// Notified when there is a reason to ask for the map.
    pub(super) news: Arc<Notify>,
    closed: AtomicBool,
    shards: AtomicBool,
    state: Mutex<ClusterState>,
    this: Weak<Self>,
}

impl fmt::Debug for ClusterInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterInner").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct ClusterState {
    nodes: HashMap<Endpoint, Link>,
    /// The master of each slot, if the client knows the master.
    map: Vec<Option<Endpoint>>,
    channels: HashMap<Vec<u8>, Channel>,
    /// The nodes to which a slot is on its way, and when a redirection last named the node. Such a
    /// node may have no slots yet.
    importing: HashMap<Endpoint, Instant>,
}

impl ClusterState {
    /// Removes this node from its channels, and returns them. The client asks the node again when
    /// the node has their slots again.
    fn leave(&mut self, node: &Endpoint) -> Vec<Vec<u8>> {
        let here =
            self.channels.iter_mut().filter(|(_, channel)| channel.home.as_ref() == Some(node));
        here.map(|(name, channel)| (channel.home.take(), name.clone()).1).collect()
    }
}

/// A channel with a subscriber in this client.
struct Channel {
    slot: u16,
    /// The node that was asked for the channel.
    home: Option<Endpoint>,
}

impl Cluster {
    pub(super) async fn open(
        seeds: Vec<Endpoint>,
        settings: Settings,
        listener: Arc<dyn Listener>,
    ) -> Result<Self, WireError> {
        let seed = seeds
            .first()
            .cloned()
            .ok_or_else(|| WireError::NotSent("the cluster has no nodes".to_owned()))?;
        let state = Mutex::new(ClusterState { map: vec![None; SLOTS], ..ClusterState::default() });
        let runtime = Runtime::here_or_own().map_err(|e| WireError::NotSent(e.to_string()))?;
        let inner = Arc::new_cyclic(|this| ClusterInner {
            runtime: Arc::new(runtime),
            seed,
            seeds,
            settings: Arc::new(settings),
            listener,
            news: Arc::new(Notify::new()),
            closed: AtomicBool::new(false),
            shards: AtomicBool::new(false),
            state,
            this: Weak::clone(this),
        });
        let node = inner.learn().await?;
        node.ready().await?;
        inner.shards.store(has_shards(&node).await?, Ordering::Release);
        inner.runtime.finish(watch(Arc::downgrade(&inner), Arc::clone(&inner.news)));
        Ok(Self(Arc::new(ClusterHandle(inner))))
    }

    pub(super) fn shards(&self) -> bool {
        self.0.0.shards.load(Ordering::Acquire)
    }

    /// The connection to the master of the slot. While the client does not know the master, the
    /// connection to another node, which may know it.
    pub(super) fn link(&self, slot: u16) -> Link {
        let mut state = self.0.0.lock();
        let known = state.map.get(usize::from(slot)).cloned().flatten();
        let endpoint = known.or_else(|| state.map.iter().flatten().next().cloned());
        let endpoint = endpoint.unwrap_or_else(|| self.0.0.seed.clone());
        self.0.0.node(&mut state, endpoint)
    }

    /// The connection to a node to which a slot is on its way.
    pub(super) fn importing(&self, endpoint: Endpoint) -> Link {
        let mut state = self.0.0.lock();
        state.importing.insert(endpoint.clone(), Clock::boot().now());
        self.0.0.node(&mut state, endpoint)
    }

    pub(super) fn masters(&self) -> Vec<Link> {
        let mut state = self.0.0.lock();
        let mut masters: Vec<Endpoint> = state.map.iter().flatten().cloned().collect();
        masters.sort_unstable();
        masters.dedup();
        masters.into_iter().map(|endpoint| self.0.0.node(&mut state, endpoint)).collect()
    }

    /// A node has said that a slot is elsewhere. Other slots may have moved too.
    pub(super) fn moved(&self, redirect: Redirect) {
        let mut state = self.0.0.lock();
        let known = &mut state.map[usize::from(redirect.slot)];
        let is_news = known.as_ref().is_some_and(|before| *before != redirect.to);
        *known = Some(redirect.to);
        self.0.0.settle(&mut state);
        drop(state);
        if is_news {
            self.0.0.listener.reconnected();
        }
        self.refresh();
    }

    pub(super) fn refresh(&self) {
        self.0.0.news.notify_one();
    }

    pub(super) fn subscribe(&self, slot: u16, channel: Vec<u8>) {
        let mut state = self.0.0.lock();
        let ClusterState { nodes, map, channels, .. } = &mut *state;
        let subscribed = channels.entry(channel.clone()).or_insert(Channel { slot, home: None });
        self.0.0.settle_one(nodes, map, &channel, subscribed);
    }

    pub(super) fn unsubscribe(&self, channel: &[u8]) {
        let mut state = self.0.0.lock();
        let Some(Channel { home: Some(home), .. }) = state.channels.remove(channel) else { return };
        if let Some(link) = state.nodes.get(&home) {
            link.unsubscribe(channel, self.shards());
        }
    }
}

impl ClusterInner {
    fn lock(&self) -> MutexGuard<'_, ClusterState> {
        lock(&self.state)
    }

    fn node(&self, state: &mut ClusterState, endpoint: Endpoint) -> Link {
        state.nodes.entry(endpoint.clone()).or_insert_with(|| self.open_link(endpoint)).clone()
    }

    fn open_link(&self, endpoint: Endpoint) -> Link {
        let listener = Arc::new(NodeListener::new(Weak::clone(&self.this), endpoint.clone()));
        Link::open_in(&self.runtime, endpoint, Arc::clone(&self.settings), listener)
    }

    /// Asks one node after the other for the map. Returns the node that answers.
    async fn learn(&self) -> Result<Link, WireError> {
        let mut candidates: Vec<Link> = self.lock().nodes.values().cloned().collect();
        // A random node first, since one node may be cut off from the others.
        if !candidates.is_empty() {
            let first = usize::try_from(random::below(candidates.len() as u64)).unwrap_or(0);
            candidates.rotate_left(first);
            candidates.sort_by_key(|link| !link.is_connected());
        }
        let is_other = |seed: &&Endpoint| !candidates.iter().any(|link| link.endpoint() == *seed);
        let seeds: Vec<&Endpoint> = self.seeds.iter().filter(is_other).collect();
        // The client connects to a seed only when no node before has answered: many a seed is a
        // replica, to which the client keeps no connection. Without a node before, the seeds
        // connect side by side, since a connection may take longer than a turn.
        if candidates.is_empty() {
            seeds.iter().for_each(|seed| drop(self.node(&mut self.lock(), (*seed).clone())));
        }
        let seeds = seeds.into_iter().map(|seed| self.node(&mut self.lock(), seed.clone()));
        let clock = Clock::boot();
        let mut problem = WireError::NotSent("no node of the cluster is known".to_owned());
        for link in candidates.into_iter().chain(seeds) {
            let answer = link.send(Request::command(&[b"CLUSTER", b"SLOTS"]));
            let ready = async {
                link.ready().await?;
                answer.await
            };
            match clock.timeout(TURN, ready).await {
                Some(Ok(answer)) => match slots::parse(&answer, link.endpoint()) {
                    ranges if ranges.is_empty() => problem = no_slots(&link),
                    ranges => {
                        self.draw(&ranges);
                        return Ok(link);
                    }
                },
                Some(Err(error)) => problem = error.said_by(Who::Server(link.endpoint().clone())),
                None => {
                    problem = WireError::NotSent(format!(
                        "{} did not answer within {TURN:?}",
                        link.endpoint()
                    ))
                }
            }
        }
        Err(problem)
    }

    /// Takes over a map. Drops the connections to nodes that have no slots any more.
    fn draw(&self, ranges: &[Range]) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.map, vec![None; SLOTS]);
        for range in ranges {
            if let Some(slots) =
                state.map.get_mut(usize::from(range.first)..=usize::from(range.last))
            {
                slots.fill(Some(range.master.clone()));
            }
        }
        for range in ranges {
            self.node(&mut state, range.master.clone());
        }
        self.settle(&mut state);
        let now = Clock::boot().now();
        state.importing.retain(|_, seen| now.saturating_since(*seen) < SELDOM);
        let is_used = |node: &Endpoint| {
            state.importing.contains_key(node) || ranges.iter().any(|range| range.master == *node)
        };
        let gone: Vec<Endpoint> =
            state.nodes.keys().filter(|node| !is_used(node)).cloned().collect();
        let closed: Vec<Vec<u8>> = gone.iter().flat_map(|node| state.leave(node)).collect();
        let gone: Vec<Link> = gone.iter().filter_map(|node| state.nodes.remove(node)).collect();
        let changes = |(before, now): (&Option<Endpoint>, &Option<Endpoint>)| {
            now.is_some() && before.is_some() && before != now
        };
        let is_news = before.iter().zip(&state.map).any(changes);
        drop(state);
        closed.iter().for_each(|channel| self.listener.unsubscribed(channel));
        if is_news {
            // The new master of a slot may not have all data of the old one.
            self.listener.reconnected();
        }
        for link in gone.into_iter().filter(|link| !link.is_connected()) {
            // The requests that the node did not get go to the node that has the slots now.
            link.abandon("it has no slots any more");
        }
    }

    /// Subscribes where the slots of the channels are now.
    fn settle(&self, state: &mut ClusterState) {
        let ClusterState { nodes, map, channels, .. } = state;
        for (name, channel) in channels.iter_mut() {
            self.settle_one(nodes, map, name, channel);
        }
    }

    fn settle_one(
        &self,
        nodes: &mut HashMap<Endpoint, Link>,
        map: &[Option<Endpoint>],
        name: &[u8],
        channel: &mut Channel,
    ) {
        let shards = self.shards.load(Ordering::Acquire);
        let home = match shards {
            true => map.get(usize::from(channel.slot)).cloned().flatten(),
            // Every node receives every message.
            false => {
                channel.home.clone().filter(|home| map.iter().flatten().any(|node| node == home))
            }
        };
        let Some(home) =
            home.or_else(|| (!shards).then(|| map.iter().flatten().next().cloned())?)
        else {
            return;
        };
        if channel.home.as_ref() == Some(&home) {
            return;
        }
        if let Some(old) = channel.home.take().and_then(|home| nodes.get(&home)) {
            old.unsubscribe(name, shards);
        }
        let link = nodes.entry(home.clone()).or_insert_with(|| self.open_link(home.clone()));
        link.subscribe(name.to_vec(), shards);
        channel.home = Some(home);
    }

    /// Whether every slot has a master, and every master a connection.
    fn is_whole(&self) -> bool {
        let state = self.lock();
        let is_up = |node: &Endpoint| state.nodes.get(node).is_some_and(Link::is_connected);
        state.map.iter().all(|node| node.as_ref().is_some_and(is_up))
    }

    /// This node has ended the subscription to the channel. Returns whether the subscription was at
    /// this node.
    pub(super) fn end_subscription(&self, channel: &[u8], node: &Endpoint) -> bool {
        // At once: another node may be asked for the channel in the next moment.
        let leave = |here: &mut Channel| here.home.take_if(|home| home == node);
        self.lock().channels.get_mut(channel).and_then(leave).is_some()
    }

    /// The channels for which this node was asked.
    pub(super) fn channels_at(&self, node: &Endpoint) -> Vec<Vec<u8>> {
        let state = self.lock();
        let here = state.channels.iter().filter(|(_, channel)| channel.home.as_ref() == Some(node));
        here.map(|(name, _)| name.clone()).collect()
    }

    /// Whether this node was asked for this channel last.
    pub(super) fn is_home(&self, channel: &[u8], node: &Endpoint) -> bool {
        self.lock().channels.get(channel).is_some_and(|channel| channel.home.as_ref() == Some(node))
    }
}

/// Whether messages can go to the shard of a slot (Redis 7). A node that has the command but not
/// the slot answers with another error. The doctor reports a user who may not use the command.
async fn has_shards(node: &Link) -> Result<bool, WireError> {
    match node.send(Request::command(&[b"SPUBLISH", b"lk:w:lockkeeper", b""])).await {
        Err(error @ WireError::Server { .. }) => Ok(!error.is_unknown_command()),
        answer => answer.map(|_| true),
    }
}

fn no_slots(link: &Link) -> WireError {
    WireError::NotSent(format!(
        "{} is a node of a cluster in which nobody has any slots",
        link.endpoint()
    ))
}

/// Keeps the map up to date until the route is dropped.
async fn watch(inner: Weak<ClusterInner>, news: Arc<Notify>) {
    let clock = Clock::boot();
    let mut next = SELDOM;
    let mut pause = PAUSE;
    loop {
        let quiet = clock.now();
        tokio::select! {
            () = news.notified() => {}
            () = clock.sleep(next) => {}
        }
        // A refused subscription is a reason to ask at once, again and again.
        let is_hasty = clock.now().saturating_since(quiet) < PAUSE;
        pause = if is_hasty { (pause * 2).min(LAST_PAUSE) } else { PAUSE };
        let Some(inner) = inner.upgrade().filter(|inner| !inner.closed.load(Ordering::Acquire))
        else {
            return;
        };
        let learnt = inner.learn().await.is_ok();
        next = if learnt && inner.is_whole() { SELDOM } else { OFTEN };
        drop(inner);
        clock.sleep(pause).await;
    }
}
