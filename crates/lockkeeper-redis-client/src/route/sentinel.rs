//! The master that the sentinels name.
//!
//! The client asks the sentinels at the beginning, when one of them publishes a switch, when the
//! connection is lost or the server proves to be a replica, and from time to time. The link itself
//! refuses a replica at each new connection.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lockkeeper_core::sync::lock;
use tokio::sync::Notify;

use super::NO_MASTER;
use super::master::{self, Opinion};
use super::opinions::{self, Opinions};
use crate::random::jittered;
use crate::runtime::Runtime;
use crate::time::Clock;
use crate::wire::{Endpoint, Link, Listener, Settings, Who, WireError};

/// How often the client asks the sentinels without a reason, and with a reason.
const SELDOM: Duration = Duration::from_secs(10);
const OFTEN: Duration = Duration::from_millis(250);

/// A route by way of sentinels.
#[derive(Clone, Debug)]
pub struct Sentinel(Arc<SentinelHandle>);

#[derive(Debug)]
struct SentinelHandle {
    inner: Arc<SentinelInner>,
    _runtime: Runtime,
}

impl Drop for SentinelHandle {
    fn drop(&mut self) {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.news.notify_one();
    }
}

struct SentinelInner {
    master: String,
    sentinels: Vec<Link>,
    settings: Arc<Settings>,
    listener: Arc<dyn Listener>,
    clock: Clock,
    /// Notified when there is a reason to ask.
    news: Arc<Notify>,
    closed: AtomicBool,
    state: Mutex<SentinelState>,
}

impl fmt::Debug for SentinelInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelInner").field("master", &self.master).finish_non_exhaustive()
    }
}

struct SentinelState {
    link: Link,
    /// The latest switch that this client knows, if a sentinel has shown one.
    epoch: Option<i64>,
    listener: Arc<MasterListener>,
    channels: Vec<Vec<u8>>,
}

impl Sentinel {
    pub(super) async fn open(
        sentinels: &[Endpoint],
        master: String,
        asking: Settings,
        settings: Settings,
        listener: Arc<dyn Listener>,
    ) -> Result<Self, WireError> {
        let news = Arc::new(Notify::new());
        let asking = Arc::new(asking);
        let switches: Arc<dyn Listener> =
            Arc::new(Switches { master: master.clone(), news: Arc::clone(&news) });
        let open = |endpoint: &Endpoint| {
            Link::open(endpoint.clone(), Arc::clone(&asking), Arc::clone(&switches))
        };
        let sentinels: Vec<Link> = sentinels.iter().map(open).collect();
        for sentinel in &sentinels {
            // The first message comes as soon as there is another master, the second when all the
            // others follow it.
            sentinel.subscribe(b"+promoted-slave".to_vec(), false);
            sentinel.subscribe(b"+switch-master".to_vec(), false);
        }
        let settings = Arc::new(Settings { only_master: true, ..settings });
        let clock = Clock::boot();
        let until = clock.now() + settings.timeout;
        let state = loop {
            let (epoch, endpoint) = first(&sentinels, &master).await?;
            let master = MasterListener::new(&listener, &news);
            let link = Link::open(endpoint, Arc::clone(&settings), master.listener());
            match link.ready().await {
                Ok(_) => {
                    break SentinelState { link, epoch, listener: master, channels: Vec::new() };
                }
                // The server may be a replica by now, or dead, and the sentinels are about to name
                // another one.
                Err(error) if error.passes() && clock.now() < until => {
                    clock.sleep(jittered(OFTEN)).await
                }
                Err(error) => return Err(error.said_by(Who::Server(link.endpoint().clone()))),
            }
        };
        let state = Mutex::new(state);
        let closed = AtomicBool::new(false);
        let inner =
            SentinelInner { master, sentinels, settings, listener, clock, news, closed, state };
        let inner = Arc::new(inner);
        let runtime = Runtime::here_or_own().map_err(|e| WireError::NotSent(e.to_string()))?;
        runtime.finish(watch(Arc::downgrade(&inner), Arc::clone(&inner.news)));
        Ok(Self(Arc::new(SentinelHandle { inner, _runtime: runtime })))
    }

    pub(super) fn link(&self) -> Link {
        self.0.inner.lock().link.clone()
    }

    /// The server of this connection of the link is no master any more.
    pub(super) fn suspect(&self, link: &Link, connection: Option<u64>) {
        // The next connection shows the role of the server.
        if let Some(connection) = connection {
            link.reset_connection(connection, NO_MASTER);
        }
        self.0.inner.news.notify_one();
    }

    pub(super) fn subscribe(&self, channel: Vec<u8>) {
        let mut state = self.0.inner.lock();
        if !state.channels.contains(&channel) {
            state.channels.push(channel.clone());
        }
        state.link.subscribe(channel, false);
    }

    pub(super) fn unsubscribe(&self, channel: &[u8]) {
        let mut state = self.0.inner.lock();
        state.channels.retain(|other| other != channel);
        state.link.unsubscribe(channel, false);
    }
}

impl SentinelInner {
    fn lock(&self) -> MutexGuard<'_, SentinelState> {
        lock(&self.state)
    }

    /// The opinions of the sentinels. A sentinel that is cut off from the others may answer first.
    /// Its opinion alone is not enough, unless it has a later switch.
    async fn ask(&self) -> Vec<Opinion> {
        let (mut opinions, named) = (Opinions::default(), self.sentinels.len());
        let known = self.lock().epoch;
        let is_later = |opinions: &Opinions| {
            opinions.said.iter().any(|(epoch, _)| known.is_some() && *epoch > known)
        };
        let is_enough = |opinions: &Opinions| opinions.are_enough(named) || is_later(opinions);
        let asked = opinions::ask(&self.sentinels, &self.master, &mut opinions, is_enough);
        self.clock.timeout(self.settings.timeout, asked).await;
        opinions.said
    }

    /// Goes over to the master that the sentinels name, if it is another one, and not that of an
    /// earlier switch. Returns whether the sentinels name a master that can be believed.
    fn follow(&self, opinions: &[Opinion]) -> bool {
        let mut state = self.lock();
        let current = (state.epoch, state.link.endpoint().clone());
        let Some((epoch, to)) = master::choose(opinions, self.sentinels.len(), Some(&current))
        else {
            return false;
        };
        state.epoch = epoch;
        if current.1 == to {
            return true;
        }
        let master = MasterListener::new(&self.listener, &self.news);
        let link = Link::open(to, Arc::clone(&self.settings), master.listener());
        for channel in &state.channels {
            link.subscribe(channel.clone(), false);
        }
        let old = std::mem::replace(&mut state.link, link);
        let retired_listener = std::mem::replace(&mut state.listener, master);
        drop(state);
        // The requests that the old master did not get go to the new one.
        old.abandon("the sentinels name another master");
        retired_listener.retired.store(true, Ordering::Release);
        // The new master may lack the last writes of the old one.
        self.listener.reconnected();
        true
    }
}

/// The master to begin with. One sentinel may be cut off from the others, and name a master that
/// they have deposed. So most of them have to answer.
async fn first(sentinels: &[Link], master: &str) -> Result<Opinion, WireError> {
    let (mut opinions, named) = (Opinions::default(), sentinels.len());
    opinions::ask(sentinels, master, &mut opinions, |opinions| opinions.are_enough(named)).await;
    match master::choose(&opinions.said, named, None).filter(|_| opinions.are_enough(named)) {
        Some(chosen) => Ok(chosen),
        None => Err(opinions.lack(named)),
    }
}

/// Follows the master until the route is dropped.
async fn watch(inner: Weak<SentinelInner>, news: Arc<Notify>) {
    let clock = Clock::boot();
    let mut next = SELDOM;
    loop {
        tokio::select! {
            () = news.notified() => {}
            () = clock.sleep(next) => {}
        }
        let Some(inner) = inner.upgrade().filter(|inner| !inner.closed.load(Ordering::Acquire))
        else {
            return;
        };
        let opinions = inner.ask().await;
        let is_sure = opinions.is_empty() || inner.follow(&opinions);
        next = if is_sure && inner.lock().link.is_connected() { SELDOM } else { OFTEN };
        // However often there is a reason, the client asks no more often than this.
        drop(inner);
        clock.sleep(OFTEN / 5).await;
    }
}

/// Listens to the master, until there is another master.
#[derive(Debug)]
struct MasterListener {
    listener: Arc<dyn Listener>,
    news: Arc<Notify>,
    retired: AtomicBool,
}

impl MasterListener {
    fn new(listener: &Arc<dyn Listener>, news: &Arc<Notify>) -> Arc<Self> {
        let retired = AtomicBool::new(false);
        Arc::new(Self { listener: Arc::clone(listener), news: Arc::clone(news), retired })
    }

    fn listener(self: &Arc<Self>) -> Arc<dyn Listener> {
        Arc::clone(self) as Arc<dyn Listener>
    }

    fn active(&self) -> Option<&dyn Listener> {
        (!self.retired.load(Ordering::Acquire)).then_some(&*self.listener)
    }
}

impl Listener for MasterListener {
    fn pushed(&self, channel: &[u8], payload: &[u8]) {
        // A message of the old master counts too: it was published before the switch.
        self.listener.pushed(channel, payload);
    }

    fn subscribed(&self, channel: &[u8]) {
        if let Some(listener) = self.active() {
            listener.subscribed(channel);
        }
    }

    fn unsubscribed(&self, channel: &[u8]) {
        if let Some(listener) = self.active() {
            listener.unsubscribed(channel);
        }
    }

    fn reconnected(&self) {
        if let Some(listener) = self.active() {
            listener.reconnected();
        }
    }

    fn refused(&self, channel: &[u8]) {
        if let Some(listener) = self.active() {
            listener.refused(channel);
        }
    }

    fn disconnected(&self) {
        self.news.notify_one();
        if let Some(listener) = self.active() {
            listener.disconnected();
        }
    }
}

/// Listens to the Sentinels.
#[derive(Debug)]
struct Switches {
    master: String,
    news: Arc<Notify>,
}

impl Listener for Switches {
    fn pushed(&self, _: &[u8], payload: &[u8]) {
        if payload.split(|byte| *byte == b' ').any(|word| word == self.master.as_bytes()) {
            self.news.notify_one();
        }
    }

    fn subscribed(&self, _: &[u8]) {
        // A message may have been lost before.
        self.news.notify_one();
    }

    fn unsubscribed(&self, _: &[u8]) {}
}
