//! The servers of a store, and the channels on which this client receives their messages.

use std::sync::Arc;

use lockkeeper_redis_client::opening;
use lockkeeper_redis_client::rights::trials;
use lockkeeper_redis_client::subscriptions::{Listens, Subscriptions};

use super::fault;
use super::layout::{self, Channel, ClientId, Keys};
use super::replicas::{self, Replicas};
use super::rights;
use super::setup::Setup;
use crate::route::{By, Data, Route};
use crate::wire::{Endpoint, Link, Listener, Request, Value, WireError};
use crate::{ErrorKind, Result};

/// The way to the servers, and the channels of this client.
#[derive(Debug)]
pub(super) struct Servers {
    route: Route,
    client: ClientId,
    /// The channel of this client; in a Cluster with sharded channels each name has its own
    /// channel.
    channel: Vec<u8>,
    /// The channels of names that this client listens to.
    subscriptions: Arc<Subscriptions>,
    replicas: Option<Replicas>,
}

/// An answer, and the server that gave it. Only [`read`](Self::read) checks whether the answer
/// belongs to the request.
#[derive(Debug)]
pub(super) struct Said {
    value: Value,
    by: By,
    needs_proof: bool,
}

impl Said {
    /// Reads the answer. If the request cannot have this answer, the later answers on the
    /// connection may belong to other requests too. So the connection is dropped, and the requests
    /// on their way there are of unknown effect.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Value) -> Result<T>) -> Result<T> {
        let answer = read(&self.value);
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Internal) {
            self.by.link.reset("it gave an answer that is not one of the request");
        }
        answer
    }

    pub(super) fn proof(self) -> Proof {
        if self.needs_proof { Proof::of(self.by) } else { Proof::Needless }
    }
}

/// Which data of which server gave an answer.
#[derive(Debug)]
pub(super) enum Proof {
    /// The store needs no replicas.
    Needless,
    /// These data of this server.
    By(By, Data),
    /// Data of this server that are not known any more: the connection was made again meanwhile.
    Lost(Endpoint),
}

impl Proof {
    fn of(by: By) -> Self {
        match by.data() {
            Some(data) => Self::By(by, data),
            None => Self::Lost(by.link.endpoint().clone()),
        }
    }
}

impl Servers {
    /// Connects to the servers.
    pub(super) async fn open(
        setup: &Setup,
        client: ClientId,
        listener: Arc<dyn Listener>,
    ) -> Result<Arc<Self>> {
        let trials = trials(setup, &rights::INSIDE, rights::TRIED);
        let settings = setup.settings(trials)?;
        let replicas = Replicas::needed(setup.min_replicas);
        let route = Route::open(setup.servers()?, settings, listener).await.map_err(fault::of)?;
        let channel = client.channel().into_bytes();
        if !route.shards() {
            route.subscribe(0, channel.clone());
        }
        let subscriptions = Subscriptions::new(&route)?;
        Ok(Arc::new(Self { route, client, channel, subscriptions, replicas }))
    }

    /// Refuses servers on which locks cannot be relied on.
    pub(super) async fn check(&self, setup: &Setup) -> Result<()> {
        opening::check(&self.route, setup, |info| replicas::check(info, setup.min_replicas)).await
    }

    /// Sends a request to the server of this slot. The request has its place in the order when this
    /// returns.
    pub(super) fn send(
        &self,
        slot: u16,
        request: Request,
    ) -> impl Future<Output = Result<Said, WireError>> + Send + use<> {
        let needs_proof = self.needs_replicas();
        let answer = self.route.send_by(slot, request);
        async move {
            let (value, by) = answer.await?;
            Ok(Said { value, by, needs_proof })
        }
    }

    /// The group of these keys. Names of one group can be in one request.
    pub(super) fn group(&self, keys: &Keys) -> u16 {
        match self.route {
            Route::Cluster(_) => keys.slot(),
            _ => 0,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// The connection to the server of this slot.
    pub(super) fn link(&self, slot: u16) -> Link {
        self.route.link(slot)
    }

    /// See [`Route::note_redirect`].
    pub(super) fn note_redirect(&self, slot: u16, link: &Link, error: &WireError) -> bool {
        self.route.note_redirect(slot, link, error)
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

    /// Waits until enough replicas of the server that gave the answer have the grant of these keys.
    pub(super) async fn replicated(&self, proof: &Proof, keys: &Keys) -> Result<()> {
        self.replicated_by(proof, || keys.mark()).await
    }

    /// The same for an answer about another key. `mark` is a key of the same slot.
    pub(super) async fn replicated_by(
        &self,
        proof: &Proof,
        mark: impl FnOnce() -> Vec<u8>,
    ) -> Result<()> {
        match (&self.replicas, proof) {
            (None, _) | (_, Proof::Needless) => Ok(()),
            (Some(replicas), Proof::By(by, data)) => {
                replicas.have_it(&by.link, data, &mark(), by.asking).await
            }
            (_, Proof::Lost(endpoint)) => Err(replicas::unproven(endpoint)),
        }
    }

    /// The channel on which this client receives messages about these keys.
    pub(super) fn channel(&self, keys: &Keys) -> Channel<'_> {
        match self.route.shards() {
            true => Channel { bytes: self.client.channel_of(keys.encoded()).into(), sharded: true },
            false => Channel { bytes: self.channel.as_slice().into(), sharded: false },
        }
    }

    /// Receives messages about claims on these keys for as long as the result lives.
    pub(super) fn listen(&self, keys: &Keys) -> Option<Listens> {
        let channel = || self.client.channel_of(keys.encoded());
        self.route.shards().then(|| self.subscriptions.listen(keys.slot(), channel(), false))
    }

    /// Receives each change of the line for as long as the result lives, if the line is observed.
    pub(super) fn listen_to_changes(&self, keys: &Keys) -> Listens {
        let channel = layout::changes_channel(keys.encoded());
        self.subscriptions.listen(keys.slot(), channel, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ClaimId, ClaimKey, SessionId};
    use lockkeeper_core::Effect;
    use lockkeeper_redis_client::peer::{Peer, echo, patient, within};

    /// None of these functions takes the answer of another request for its own.
    #[tokio::test]
    async fn behind_an_answer_that_its_request_cannot_have_nothing_is_known() {
        type Read = fn(&Value) -> Result<()>;
        fn key() -> ClaimKey {
            ClaimKey {
                name: "a".parse().unwrap(),
                session: SessionId::random(),
                id: ClaimId::random(),
            }
        }
        let location = || layout::KeyLocation::of("a");
        let reads: [Read; 6] = [
            |value| layout::withdraw_answer(value).map(drop),
            |value| layout::amend_answer(&key(), value).map(drop),
            |value| layout::evict_answer(value).map(drop),
            |value| layout::request_answer(value).map(drop),
            |value| layout::observe_answer(value).map(drop),
            |value| layout::line_answer(&"a".parse()?, value).map(drop),
        ];
        let swap = move |value: &Value| layout::swap_answer(&location(), value).map(drop);
        let reads =
            reads.into_iter().map(|read| Box::new(read) as Box<dyn Fn(&Value) -> Result<()>>);
        let (peer, client) = (Peer::new().await, ClientId::random());
        let (link, mut remote, _received) = peer.link(patient()).await;
        let route = Route::Standalone(link);
        let subscriptions = Subscriptions::new(&route).unwrap();
        let servers = Servers { route, client, channel: Vec::new(), subscriptions, replicas: None };
        for read in reads.chain([Box::new(swap) as Box<_>]) {
            let (wrong, behind) = (servers.send(0, echo("x")), servers.send(0, echo("y")));
            assert_eq!(
                [remote.request().await.remove(1), remote.request().await.remove(1)],
                ["x", "y"]
            );
            remote.say("+what\r\n").await;
            let error = within(wrong).await.unwrap().read(read).unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Internal, Effect::Unknown),
                "{error}"
            );
            assert!(matches!(within(behind).await, Err(WireError::Broken(_))));
            remote = peer.connection().await;
        }
    }
}
