//! The servers of a store, and where this client hears of what they push.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::builder;
use super::fault;
use super::layout::{self, Channel, ClientId, Keys};
use super::replicas::{self, Replicas};
use super::route::{By, Fewer, Route, Topology};
use super::wire::{Link, Listener, Request, Settings, Value, WireError};
use super::{Check, RedisStoreBuilder, rights};
use crate::net::{Endpoint, TlsSettings};
use crate::runtime::serve_here;
use crate::time::Clock;
use crate::{Error, Result};

/// Connections may take this long to be made, however short the patience for an answer is.
const CONNECT_MIN: Duration = Duration::from_secs(3);

/// Who watches a line looks at it now and then, and goes on watching. Its subscription outlasts the look.
const LINGER: Duration = Duration::from_secs(1);

/// The way to the servers, and the channels of this client.
#[derive(Debug)]
pub(super) struct Servers {
    route: Route,
    client: ClientId,
    /// Where this client hears of everything; in a Cluster with sharded channels each name has one of its own.
    channel: Vec<u8>,
    /// The channels of names that this client listens to.
    listening: Mutex<HashMap<Vec<u8>, Listening>>,
    replicas: Option<Replicas>,
}

/// A channel of a name.
#[derive(Debug, Default)]
struct Listening {
    /// How many listen.
    listeners: usize,
    /// The subscription stays for a while, also if nobody listens.
    lingers: bool,
}

/// One who listens to a channel of a name, until it is dropped.
#[derive(Debug)]
pub(super) struct Listens {
    servers: Weak<Servers>,
    channel: Vec<u8>,
    /// It may be back soon.
    lingers: bool,
}

/// By which run of which server something was answered.
#[derive(Debug)]
pub(super) enum Proof {
    /// Nobody asks.
    Needless,
    /// By this run of this one.
    By(By, String),
    /// By one that nobody knows any more: the way there has changed meanwhile.
    Lost(Endpoint),
}

impl Proof {
    fn of(by: By) -> Self {
        match by.run() {
            Some(run) => Self::By(by, run),
            None => Self::Lost(by.link.endpoint().clone()),
        }
    }
}

impl Servers {
    /// Connects.
    pub(super) async fn open(
        builder: &RedisStoreBuilder,
        client: ClientId,
        listener: Arc<dyn Listener>,
    ) -> Result<Arc<Self>> {
        let settings = settings(builder)?;
        let replicas = Replicas::needed(builder.min_replicas);
        let (route, _) = Route::open(topology(builder)?, settings, listener).await.map_err(fault::of)?;
        let channel = client.channel().into_bytes();
        if !route.shards() {
            route.subscribe(0, channel.clone());
        }
        Ok(Arc::new(Self { route, client, channel, listening: Mutex::default(), replicas }))
    }

    /// Sends a request to who has these keys. It has its place in the order when this returns.
    pub(super) fn send(
        &self,
        keys: &Keys,
        request: Request,
    ) -> impl Future<Output = Result<Value, WireError>> + Send + 'static + use<> {
        self.send_to(keys.slot(), request)
    }

    /// The same for a request that can also be made with fewer keys, while the slot is on its way.
    pub(super) fn send_or<F: Fewer>(
        &self,
        keys: &Keys,
        request: Request,
        fewer: F,
    ) -> impl Future<Output = Result<Value, WireError>> + Send + use<F> {
        self.route.send_or(keys.slot(), request, fewer)
    }

    /// The same, with what tells by which server it was answered.
    pub(super) fn send_proven<F: Fewer>(
        &self,
        keys: &Keys,
        request: Request,
        fewer: F,
    ) -> impl Future<Output = Result<(Value, Proof), WireError>> + Send + use<F> {
        let needs_proof = self.needs_replicas();
        let answer = self.route.send_or_by(keys.slot(), request, fewer);
        async move {
            let (value, by) = answer.await?;
            Ok((value, if needs_proof { Proof::of(by) } else { Proof::Needless }))
        }
    }

    /// The same for what is in this slot.
    pub(super) fn send_to(
        &self,
        slot: u16,
        request: Request,
    ) -> impl Future<Output = Result<Value, WireError>> + Send + 'static + use<> {
        self.route.send(slot, request)
    }

    /// Names of one place can be in one request.
    pub(super) fn place(&self, keys: &Keys) -> u16 {
        match self.route {
            Route::Cluster(_) => keys.slot(),
            _ => 0,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// The connection to who has this slot.
    pub(super) fn link(&self, slot: u16) -> Link {
        self.route.link(slot)
    }

    /// See [`Route::doubt`].
    pub(super) fn doubt(&self, link: &Link) {
        self.route.doubt(link);
    }

    /// See [`Route::heed`].
    pub(super) fn heed(&self, slot: u16, link: &Link, error: &WireError) -> bool {
        self.route.heed(slot, link, error)
    }

    /// Every master.
    pub(super) fn masters(&self) -> Vec<Link> {
        self.route.masters()
    }

    /// Whether messages go to the shards of a cluster.
    pub(super) fn shards(&self) -> bool {
        self.route.shards()
    }

    /// Whether a lock counts only when replicas have it.
    pub(super) fn needs_replicas(&self) -> bool {
        self.replicas.is_some()
    }

    /// Waits until enough replicas of the server that has answered so have what was granted with these keys.
    pub(super) async fn replicated(&self, proof: &Proof, keys: &Keys) -> Result<()> {
        match (&self.replicas, proof) {
            (None, _) | (_, Proof::Needless) => Ok(()),
            (Some(replicas), Proof::By(by, run)) => replicas.have_it(&by.link, run, keys, by.asking).await,
            (_, Proof::Lost(endpoint)) => Err(replicas::unproven(endpoint)),
        }
    }

    /// Where this client hears of these keys.
    pub(super) fn channel(&self, keys: &Keys) -> Channel<'_> {
        match self.route.shards() {
            true => Channel { bytes: self.client.channel_of(keys.encoded()).into(), sharded: true },
            false => Channel { bytes: self.channel.as_slice().into(), sharded: false },
        }
    }

    /// Hears of claims on these keys for as long as the result lives.
    pub(super) fn listen(self: &Arc<Self>, keys: &Keys) -> Option<Listens> {
        self.route.shards().then(|| self.listen_to(keys, self.client.channel_of(keys.encoded()), false))
    }

    /// Hears of each change of the line for as long as the result lives, if the line is observed.
    pub(super) fn listen_to_changes(self: &Arc<Self>, keys: &Keys) -> Listens {
        self.listen_to(keys, layout::changes_channel(keys.encoded()), true)
    }

    fn listen_to(self: &Arc<Self>, keys: &Keys, channel: Vec<u8>, lingers: bool) -> Listens {
        let mut listening = self.lock();
        let here = listening.entry(channel.clone()).or_default();
        here.listeners += 1;
        if here.listeners == 1 && !here.lingers {
            // Under the lock, so that an end and a beginning of the same channel come in order.
            self.route.subscribe(keys.slot(), channel.clone());
        }
        drop(listening);
        Listens { servers: Arc::downgrade(self), channel, lingers }
    }

    /// Ends a subscription that nobody needs.
    fn leave(&self, listening: &mut HashMap<Vec<u8>, Listening>, channel: &[u8]) {
        if listening.get(channel).is_some_and(|here| here.listeners == 0 && !here.lingers) {
            listening.remove(channel);
            self.route.unsubscribe(channel);
        }
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Listening>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        let Some(servers) = self.servers.upgrade() else { return };
        let mut listening = servers.lock();
        let Some(here) = listening.get_mut(&self.channel) else { return };
        here.listeners -= 1;
        if here.listeners == 0 && self.lingers && !here.lingers {
            here.lingers = serve_here(linger(Weak::clone(&self.servers), self.channel.clone()));
        }
        servers.leave(&mut listening, &self.channel);
    }
}

/// Ends a subscription after a while, unless somebody listens by then.
async fn linger(servers: Weak<Servers>, channel: Vec<u8>) {
    Clock::boot().sleep(LINGER).await;
    let Some(servers) = servers.upgrade() else { return };
    let mut listening = servers.lock();
    if let Some(here) = listening.get_mut(&channel) {
        here.lingers = false;
    }
    servers.leave(&mut listening, &channel);
}

fn topology(builder: &RedisStoreBuilder) -> Result<Topology> {
    let mut endpoints: Vec<_> =
        builder.addresses().map(|(host, port)| Endpoint { host: host.to_owned(), port }).collect();
    Ok(match &builder.topology {
        builder::Topology::Standalone => match endpoints.pop() {
            Some(endpoint) => Topology::Standalone(endpoint),
            None => return Err(Error::invalid("a Redis store without a host").with_remedy("HOST or HOST:PORT")),
        },
        builder::Topology::Sentinel(master) => Topology::Sentinel {
            sentinels: endpoints,
            master: master.clone(),
            user: builder.sentinel_user.clone(),
            password: builder.sentinel_password.clone().or_else(|| builder.password.clone()),
        },
        builder::Topology::Cluster => Topology::Cluster(endpoints),
    })
}

fn settings(builder: &RedisStoreBuilder) -> Result<Settings> {
    Ok(Settings {
        user: builder.user.clone(),
        password: builder.password.clone(),
        db: builder.db,
        tls: builder.tls.as_ref().map(TlsSettings::load).transpose()?,
        resp2: builder.resp2,
        stays_master: builder.topology == builder::Topology::Standalone && !builder.waived.contains(&Check::Replica),
        never_forgets: !builder.waived.contains(&Check::Eviction),
        trials: if builder.waived.contains(&Check::Rights) { Vec::new() } else { rights::trials(builder) },
        timeout: builder.timeout,
        connect_timeout: builder.timeout.max(CONNECT_MIN),
        ..Settings::default()
    })
}
