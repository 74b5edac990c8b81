//! The master that the sentinels name.
//!
//! They are asked at the beginning, when one of them tells of a switch, when the connection is lost or the server
//! proves to be a replica, and from time to time. The link itself refuses a replica at each new connection.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use tokio::sync::Notify;

use super::super::wire::{Endpoint, Link, Listener, Request, Server, Settings, WireError};
use super::slots::text;
use crate::runtime::Runtime;
use crate::time::Clock;

/// How often the sentinels are asked without a reason, and with one.
const SELDOM: Duration = Duration::from_secs(10);
const OFTEN: Duration = Duration::from_millis(250);

/// A route by way of sentinels.
#[derive(Clone, Debug)]
pub(crate) struct Sentinel(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    inner: Arc<Inner>,
    _runtime: Runtime,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.news.notify_one();
    }
}

struct Inner {
    master: String,
    sentinels: Vec<Link>,
    settings: Arc<Settings>,
    listener: Arc<dyn Listener>,
    clock: Clock,
    /// There is a reason to ask.
    news: Arc<Notify>,
    closed: AtomicBool,
    state: Mutex<State>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("master", &self.master).finish_non_exhaustive()
    }
}

struct State {
    link: Link,
    ear: Arc<Ear>,
    channels: Vec<Vec<u8>>,
}

impl Sentinel {
    pub(super) async fn open(
        sentinels: &[Endpoint],
        master: String,
        asking: Settings,
        settings: Settings,
        listener: Arc<dyn Listener>,
    ) -> Result<(Self, Server), WireError> {
        let news = Arc::new(Notify::new());
        let asking = Arc::new(asking);
        let ear: Arc<dyn Listener> = Arc::new(Switches { master: master.clone(), news: Arc::clone(&news) });
        let open = |endpoint: &Endpoint| Link::open(endpoint.clone(), Arc::clone(&asking), Arc::clone(&ear));
        let sentinels: Vec<Link> = sentinels.iter().map(open).collect();
        for sentinel in &sentinels {
            // The first comes as soon as there is another master; the second when all the others follow it.
            sentinel.subscribe(b"+promoted-slave".to_vec(), false);
            sentinel.subscribe(b"+switch-master".to_vec(), false);
        }
        let settings = Arc::new(Settings { only_master: true, ..settings });
        let endpoint = ask(&sentinels, &master).await?;
        let ear = Ear::new(&listener, &news);
        let link = Link::open(endpoint, Arc::clone(&settings), ear.listener());
        let server = link.ready().await?;
        let state = Mutex::new(State { link, ear, channels: Vec::new() });
        let closed = AtomicBool::new(false);
        let inner = Inner { master, sentinels, settings, listener, clock: Clock::boot(), news, closed, state };
        let inner = Arc::new(inner);
        let runtime = Runtime::here_or_own().map_err(|e| WireError::NotSent(e.to_string()))?;
        runtime.finish(watch(Arc::downgrade(&inner), Arc::clone(&inner.news)));
        Ok((Self(Arc::new(Handle { inner, _runtime: runtime })), server))
    }

    pub(super) fn link(&self) -> Link {
        self.0.inner.lock().link.clone()
    }

    /// The server of this link is no master any more.
    pub(super) fn doubt(&self, link: &Link) {
        // It says what it is when it is connected to again.
        link.reset("it is a replica now");
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

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes over to another master, if it is another one.
    fn switch(&self, to: Endpoint) {
        let mut state = self.lock();
        if *state.link.endpoint() == to {
            return;
        }
        let ear = Ear::new(&self.listener, &self.news);
        let link = Link::open(to, Arc::clone(&self.settings), ear.listener());
        for channel in &state.channels {
            link.subscribe(channel.clone(), false);
        }
        let old = std::mem::replace(&mut state.link, link);
        let deaf = std::mem::replace(&mut state.ear, ear);
        drop(state);
        // What it did not get goes to the new one.
        old.abandon("the sentinels name another master");
        deaf.retired.store(true, Ordering::Release);
    }
}

/// Follows the master for as long as somebody has the route.
async fn watch(inner: Weak<Inner>, news: Arc<Notify>) {
    let clock = Clock::boot();
    let mut next = SELDOM;
    loop {
        tokio::select! {
            () = news.notified() => {}
            () = clock.sleep(next) => {}
        }
        let Some(inner) = inner.upgrade().filter(|inner| !inner.closed.load(Ordering::Acquire)) else { return };
        let named = inner.clock.timeout(inner.settings.timeout, ask(&inner.sentinels, &inner.master)).await;
        if let Some(Ok(endpoint)) = named {
            inner.switch(endpoint);
        }
        next = if inner.lock().link.is_connected() { SELDOM } else { OFTEN };
        // What wakes us too often is not followed more often than this.
        drop(inner);
        clock.sleep(OFTEN / 5).await;
    }
}

/// A sentinel's opinion: the master, and the number of the switch that made it one.
type Opinion = Result<(i64, Endpoint), WireError>;

/// The master by what the sentinels say: of the latest switch that one of them knows, and of several opinions on that
/// the one that most have.
async fn ask(sentinels: &[Link], master: &str) -> Result<Endpoint, WireError> {
    let mut asked: Vec<_> = sentinels.iter().map(|sentinel| Box::pin(opinion(sentinel, master))).collect();
    let mut opinions: Vec<Opinion> = Vec::new();
    // When one has answered, those that do not are waited for only a little longer.
    let clock = Clock::boot();
    let mut grace = pin!(clock.sleep(OFTEN));
    let mut is_late = false;
    std::future::poll_fn(|cx| {
        asked.retain_mut(|asked| match asked.as_mut().poll(cx) {
            Poll::Ready(opinion) => {
                opinions.push(opinion);
                false
            }
            Poll::Pending => true,
        });
        is_late = is_late || grace.as_mut().poll(cx).is_ready();
        let is_enough = asked.is_empty() || (is_late && opinions.iter().any(Result::is_ok));
        if is_enough { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let count = |wanted: &(i64, Endpoint)| opinions.iter().flatten().filter(|opinion| *opinion == wanted).count();
    let best = opinions.iter().flatten().max_by_key(|opinion| (opinion.0, count(opinion)));
    if let Some((_, endpoint)) = best {
        return Ok(endpoint.clone());
    }
    let problem = opinions.into_iter().find_map(Result::err);
    Err(problem.unwrap_or_else(|| WireError::NotSent("there are no sentinels".to_owned())))
}

async fn opinion(sentinel: &Link, master: &str) -> Opinion {
    sentinel.ready().await?;
    let name = master.as_bytes();
    let [address, details] = sentinel.send_all([
        Request::command(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]),
        Request::command(&[b"SENTINEL", b"MASTER", name]),
    ]);
    let endpoint = read_address(&address.await?).ok_or_else(|| unknown(sentinel, master))?;
    // A user may be forbidden to see the details.
    let epoch = details.await.ok().and_then(|details| config_epoch(&details));
    Ok((epoch.unwrap_or(0), endpoint))
}

fn unknown(sentinel: &Link, master: &str) -> WireError {
    WireError::NotSent(format!("the sentinel {} knows no master {master:?}", sentinel.endpoint()))
}

fn read_address(answer: &Value) -> Option<Endpoint> {
    let Value::Array(parts) = answer else { return None };
    let [host, port] = parts.as_slice() else { return None };
    Some(Endpoint { host: text(host)?.to_owned(), port: text(port)?.parse().ok()? })
}

fn config_epoch(details: &Value) -> Option<i64> {
    let find = |key: &Value, value: &Value| (text(key)? == "config-epoch").then(|| text(value)?.parse().ok())?;
    match details {
        Value::Map(fields) => fields.iter().find_map(|(key, value)| find(key, value)),
        Value::Array(parts) => parts.chunks_exact(2).find_map(|pair| find(&pair[0], &pair[1])),
        _ => None,
    }
}

/// Hears the master, until it is another one.
#[derive(Debug)]
struct Ear {
    listener: Arc<dyn Listener>,
    news: Arc<Notify>,
    retired: AtomicBool,
}

impl Ear {
    fn new(listener: &Arc<dyn Listener>, news: &Arc<Notify>) -> Arc<Self> {
        let retired = AtomicBool::new(false);
        Arc::new(Self { listener: Arc::clone(listener), news: Arc::clone(news), retired })
    }

    fn listener(self: &Arc<Self>) -> Arc<dyn Listener> {
        Arc::clone(self) as Arc<dyn Listener>
    }

    fn hears(&self) -> Option<&dyn Listener> {
        (!self.retired.load(Ordering::Acquire)).then_some(&*self.listener)
    }
}

impl Listener for Ear {
    fn pushed(&self, channel: &[u8], payload: &[u8]) {
        // Of an old master too: it was said before the switch.
        self.listener.pushed(channel, payload);
    }

    fn subscribed(&self, channel: &[u8]) {
        if let Some(listener) = self.hears() {
            listener.subscribed(channel);
        }
    }

    fn unsubscribed(&self, channel: &[u8]) {
        if let Some(listener) = self.hears() {
            listener.unsubscribed(channel);
        }
    }

    fn disconnected(&self) {
        self.news.notify_one();
        if let Some(listener) = self.hears() {
            listener.disconnected();
        }
    }
}

/// Hears the sentinels.
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
        // Something may have been missed.
        self.news.notify_one();
    }

    fn unsubscribed(&self, _: &[u8]) {}

    fn disconnected(&self) {}
}
