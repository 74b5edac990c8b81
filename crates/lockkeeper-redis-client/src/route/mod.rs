//! Which server a request goes to: the only server, the master that the Sentinels name, or the node
//! of the cluster that has the slot.

mod cluster;
mod master;
mod node;
mod opinions;
mod sentinel;
mod slots;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::cluster::Cluster;
use self::sentinel::Sentinel;
use self::slots::Redirect;
use crate::Secret;
use crate::time::Clock;
use crate::wire::{Endpoint, Link, Listener, Request, Run, Settings, Value, Who, WireError};
use lockkeeper_core::kit::Backoff;

/// Why the route drops a connection whose redirection is about another slot.
const OUT_OF_STEP: &str = "answered about a slot that was not asked about";

/// Why the route drops a connection that refuses writes.
const NO_MASTER: &str = "it is a replica now";

/// The pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// The addresses of the servers.
#[derive(Clone, Debug)]
pub enum Topology {
    /// One server.
    Standalone(Endpoint),
    /// The master that Sentinels name.
    Sentinel {
        /// The addresses of the Sentinels.
        sentinels: Vec<Endpoint>,
        /// The name of the master at the sentinels.
        master: String,
        /// The login at the sentinels.
        user: Option<String>,
        /// The password at the Sentinels.
        password: Option<Secret>,
    },
    /// Some nodes of a Cluster.
    Cluster(Vec<Endpoint>),
}

/// The way to the servers. Cheap to clone. Its connections are closed with the last clone.
#[derive(Clone, Debug)]
pub enum Route {
    /// The connection to the only server.
    Standalone(Link),
    /// The way to the master that Sentinels name.
    Sentinel(Sentinel),
    /// The ways to the nodes of a Cluster.
    Cluster(Cluster),
}

/// What to do about an error.
enum RetryAction {
    /// Nothing: the error is the answer.
    None,
    /// Another attempt, after a pause if the last one was not the first.
    Again,
    /// Another attempt after a pause.
    Later,
    /// Send the request to this node once, preceded by `ASKING`.
    Ask(Link),
    /// Drop the connection: the answer belongs to another request, and so may all later ones.
    Distrust,
}

/// The origin of an answer: the link, and its connection at the time of the request.
#[derive(Clone, Debug)]
pub struct By {
    /// The link on which the request went.
    pub link: Link,
    /// A refusal may be read late, when the link has a good connection again, so only this one is
    /// dropped. `None` if the link had no connection: the next attempt shows which one is refused.
    before: Option<u64>,
    /// The request followed `ASKING`: the node has the keys before it has the slot.
    pub asking: bool,
}

/// Which data a server has answered from: the run of its process, and the history of the data.
///
/// A server that becomes a replica loses its own data without a restart, and its connections stay.
/// The history is another one when the server is a master again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The id of the run of the process.
    pub run: String,
    /// The id of the history of the data.
    pub history: String,
}

impl Data {
    /// `None` if the server does not say.
    pub fn of(run: Run) -> Option<Self> {
        Some(Self { run: run.id?, history: run.history? })
    }
}

impl By {
    fn now(link: &Link, asking: bool) -> Self {
        Self { link: link.clone(), before: link.connection(), asking }
    }

    /// The data of the server that has answered, if the connection is still the same.
    pub fn data(&self) -> Option<Data> {
        self.link.run().filter(|run| Some(run.connection) == self.before).and_then(Data::of)
    }
}

impl Route {
    /// Connects, in the runtime that the caller is in.
    ///
    /// # Errors
    /// Why no server could be used. Nothing is left open then.
    pub async fn open(
        topology: Topology,
        settings: Settings,
        listener: Arc<dyn Listener>,
    ) -> Result<Self, WireError> {
        match topology {
            Topology::Standalone(endpoint) => {
                let link = Link::open(endpoint, Arc::new(settings), listener);
                link.ready().await?;
                Ok(Self::Standalone(link))
            }
            Topology::Sentinel { sentinels, master, user, password } => {
                let asking = Settings { user, password, db: 0, sentinel: true, ..settings.clone() };
                let asking = Settings { never_forgets: false, asks_history: false, ..asking };
                let asking = Settings { trials: Vec::new(), ..asking };
                Sentinel::open(&sentinels, master, asking, settings, listener)
                    .await
                    .map(Self::Sentinel)
            }
            Topology::Cluster(seeds) => {
                Cluster::open(seeds, settings, listener).await.map(Self::Cluster)
            }
        }
    }

    /// Sends a request about what is in `slot` (outside a cluster any number). The request has its
    /// place in the order of the requests to that slot when this returns. While the caller awaits
    /// the answer, the route follows redirections, and repeats the request after errors that pass,
    /// for at most [`Settings::timeout`]. It never repeats a request whose effect is unknown.
    /// Returns the answer, and its origin.
    pub fn send_by(
        &self,
        slot: u16,
        request: Request,
    ) -> impl Future<Output = Result<(Value, By), WireError>> + Send + use<> {
        let link = self.link(slot);
        let by = By::now(&link, false);
        let answer = link.send(request.clone());
        let route = self.clone();
        async move {
            match answer.await.and_then(whole) {
                Ok(value) => Ok((value, by)),
                Err(error) => route.follow(slot, request, by, error).await,
            }
        }
    }

    async fn follow(
        &self,
        slot: u16,
        request: Request,
        mut by: By,
        error: WireError,
    ) -> Result<(Value, By), WireError> {
        let clock = Clock::boot();
        let until = clock.now() + by.link.timeout();
        let mut backoff = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        let mut error = error;
        for attempt in 0_u32.. {
            let action = self.retry_action(slot, &by, &error);
            let waits = match &action {
                RetryAction::None => return Err(self.named(&by.link, error)),
                RetryAction::Distrust => {
                    by.link.reset(OUT_OF_STEP);
                    return Err(WireError::Broken(format!("{} {OUT_OF_STEP}", by.link.endpoint())));
                }
                RetryAction::Later => true,
                // Two servers may send us to each other, until they agree.
                RetryAction::Again | RetryAction::Ask(_) => attempt > 1,
            };
            if clock.now() >= until {
                return Err(self.named(&by.link, error));
            }
            if waits {
                clock.sleep(backoff.pause()).await;
            }
            let answer = match action {
                RetryAction::Ask(other) => {
                    // The request reports why the node cannot be reached.
                    drop(other.ready().await);
                    by = By::now(&other, true);
                    let [_, answer] =
                        other.send_all([Request::command(&[b"ASKING"]), request.clone()]);
                    answer
                }
                _ => {
                    by = By::now(&self.link(slot), false);
                    by.link.send(request.clone())
                }
            };
            match answer.await.and_then(whole) {
                Ok(value) => return Ok((value, by)),
                Err(next) => error = next,
            }
        }
        Err(error)
    }

    /// An error of one of several servers names the server.
    fn named(&self, link: &Link, error: WireError) -> WireError {
        match self {
            Self::Standalone(_) => error,
            Self::Sentinel(_) | Self::Cluster(_) => {
                error.said_by(Who::Server(link.endpoint().clone()))
            }
        }
    }

    /// What to do about `error`, the answer to a request by `by`.
    fn retry_action(&self, slot: u16, by: &By, error: &WireError) -> RetryAction {
        let link = &by.link;
        let code = match error {
            WireError::Broken(_) => return RetryAction::None,
            // The request was never written. Another server may have the slot by now.
            WireError::NotSent(_) if self.link(slot).is_same(link) => return RetryAction::None,
            WireError::NotSent(_) => return RetryAction::Again,
            WireError::Server { code, .. } => code.as_str(),
        };
        match (self, code) {
            // The link has loaded the script and repeated the call once, and another client has
            // removed the script meanwhile.
            (_, "NOSCRIPT") => RetryAction::Again,
            // The address may lead to another server by now. The next connection finds out whether
            // that is a master.
            (Self::Standalone(_), "READONLY" | "MASTERDOWN") if link.stays_master() => {
                if let Some(refused) = by.before {
                    link.reset_connection(refused, NO_MASTER);
                }
                RetryAction::Later
            }
            (Self::Standalone(_), _) => RetryAction::None,
            (Self::Sentinel(sentinel), "READONLY" | "MASTERDOWN") => {
                sentinel.suspect(link, by.before);
                RetryAction::Later
            }
            (Self::Cluster(cluster), "MOVED" | "ASK") => {
                match Redirect::parse(error, link.endpoint()) {
                    Some(redirect) if redirect.slot != slot => RetryAction::Distrust,
                    Some(redirect) if code == "ASK" => {
                        RetryAction::Ask(cluster.importing(redirect.to))
                    }
                    Some(redirect) => {
                        cluster.moved(redirect);
                        RetryAction::Again
                    }
                    None => RetryAction::None,
                }
            }
            (Self::Cluster(cluster), "CLUSTERDOWN" | "READONLY" | "MASTERDOWN") => {
                cluster.refresh();
                RetryAction::Later
            }
            // The slot is on its way, and some of the keys are at another node or do not exist.
            // That ends with the move.
            (Self::Cluster(_), "TRYAGAIN") | (_, "LOADING") => RetryAction::Later,
            _ => RetryAction::None,
        }
    }

    /// Applies a redirection of this slot that came on another connection, so that the next
    /// connection is to the right server. Returns whether the redirection, if it is one, is about
    /// this slot.
    pub fn note_redirect(&self, slot: u16, link: &Link, error: &WireError) -> bool {
        let redirect = Redirect::parse(error, link.endpoint())
            .filter(|_| error.is("MOVED") || error.is("ASK"));
        if redirect.is_some_and(|redirect| redirect.slot != slot) {
            return false;
        }
        // The caller decides what to do about the error.
        let _ = self.retry_action(slot, &By::now(link, false), error);
        true
    }

    /// The server of this connection was named as the master, and is a replica now.
    pub fn suspect(&self, link: &Link) {
        match self {
            Self::Standalone(_) => {}
            Self::Sentinel(sentinel) => sentinel.suspect(link, link.connection()),
            Self::Cluster(cluster) => cluster.refresh(),
        }
    }

    /// The connection that requests about this slot take now.
    pub fn link(&self, slot: u16) -> Link {
        match self {
            Self::Standalone(link) => link.clone(),
            Self::Sentinel(sentinel) => sentinel.link(),
            Self::Cluster(cluster) => cluster.link(slot),
        }
    }

    /// The masters, for requests that go to all of them.
    pub fn masters(&self) -> Vec<Link> {
        match self {
            Self::Cluster(cluster) => cluster.masters(),
            other => vec![other.link(0)],
        }
    }

    /// Whether messages are published in shards (`SPUBLISH`), so that a channel lies in a slot.
    pub fn shards(&self) -> bool {
        matches!(self, Self::Cluster(cluster) if cluster.shards())
    }

    /// Listens to a channel, which lies in `slot` where messages [are sharded](Self::shards). Until
    /// the channel is unsubscribed, the route makes the subscription again wherever the slot goes.
    /// The [`Listener`] learns when the subscription does not stand
    /// ([`unsubscribed`](Listener::unsubscribed) or [`disconnected`](Listener::disconnected)), and
    /// each time that it stands again.
    pub fn subscribe(&self, slot: u16, channel: Vec<u8>) {
        match self {
            Self::Standalone(link) => link.subscribe(channel, false),
            Self::Sentinel(sentinel) => sentinel.subscribe(channel),
            Self::Cluster(cluster) => cluster.subscribe(slot, channel),
        }
    }

    /// Ends the subscription to a channel.
    pub fn unsubscribe(&self, channel: &[u8]) {
        match self {
            Self::Standalone(link) => link.unsubscribe(channel, false),
            Self::Sentinel(sentinel) => sentinel.unsubscribe(channel),
            Self::Cluster(cluster) => cluster.unsubscribe(channel),
        }
    }
}

/// Takes an answer in parts as an error if one part says that the server is no master: that holds
/// for all parts.
fn whole(answer: Value) -> Result<Value, WireError> {
    let Value::Array(parts) = &answer else { return Ok(answer) };
    let mut errors = parts.iter().filter_map(|part| match part {
        Value::ServerError(error) => Some(WireError::from(error.clone())),
        _ => None,
    });
    let refusal = errors.find(|error| error.is("READONLY") || error.is("MASTERDOWN"));
    refusal.map_or(Ok(answer), Err)
}
