//! The servers of a store, and where this client hears of what they push.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::builder;
use super::fault;
use super::layout::{self, Channel, ClientId, Keys};
use super::replicas::Replicas;
use super::route::{Fewer, Route, Topology};
use super::wire::{Link, Listener, Request, Settings, Value, WireError};
use super::{Check, RedisStoreBuilder};
use crate::net::{Endpoint, TlsSettings};
use crate::{Error, Result};

/// Connections may take this long to be made, however short the patience for an answer is.
const CONNECT_MIN: Duration = Duration::from_secs(3);

/// The way to the servers, and the channels of this client.
#[derive(Debug)]
pub(super) struct Servers {
    route: Route,
    client: ClientId,
    /// Where this client hears of everything; in a Cluster with sharded channels each name has one of its own.
    channel: Vec<u8>,
    /// How many listen to the channel of a name, by what the name is encoded as.
    listening: Mutex<HashMap<Vec<u8>, usize>>,
    replicas: Option<Replicas>,
}

/// One who listens to the channel of a name, until it is dropped.
#[derive(Debug)]
pub(super) struct Listens {
    servers: Arc<Servers>,
    name: Vec<u8>,
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

    /// Waits until enough replicas have what was granted with these keys.
    pub(super) async fn replicated(&self, keys: &Keys) -> Result<()> {
        match &self.replicas {
            Some(replicas) => replicas.have_it(&self.route.link(keys.slot()), keys).await,
            None => Ok(()),
        }
    }

    /// Where this client hears of these keys.
    pub(super) fn channel(&self, keys: &Keys) -> Channel<'_> {
        match self.route.shards() {
            true => Channel { bytes: self.client.channel_of(keys.encoded()).into(), sharded: true },
            false => Channel { bytes: self.channel.as_slice().into(), sharded: false },
        }
    }

    /// Hears of these keys for as long as the result lives.
    pub(super) fn listen(self: &Arc<Self>, keys: &Keys) -> Option<Listens> {
        if !self.route.shards() {
            return None;
        }
        let name = keys.encoded().to_vec();
        let mut listening = self.lock();
        let count = listening.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 {
            // Under the lock, so that an end and a beginning of the same channel come in order.
            self.route.subscribe(keys.slot(), self.client.channel_of(&name));
        }
        drop(listening);
        Some(Listens { servers: Arc::clone(self), name })
    }

    /// No operation on it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, usize>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        let mut listening = self.servers.lock();
        let Some(count) = listening.get_mut(&self.name) else { return };
        *count -= 1;
        if *count == 0 {
            listening.remove(&self.name);
            self.servers.route.unsubscribe(&self.servers.client.channel_of(&self.name));
        }
    }
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
        never_forgets: !builder.waived.contains(&Check::Eviction),
        timeout: builder.timeout,
        connect_timeout: builder.timeout.max(CONNECT_MIN),
        scripts: &layout::SCRIPTS,
        ..Settings::default()
    })
}
